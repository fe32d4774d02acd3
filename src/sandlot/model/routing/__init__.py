"""Which of several replicas of a model takes a request: pure decisions, without any network."""
