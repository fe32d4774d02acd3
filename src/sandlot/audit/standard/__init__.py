"""OpenEnv's RFC 008: an audit in the ids, words and exit codes of that standard."""
