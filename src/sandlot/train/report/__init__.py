"""Progress, summary and report page of a training."""
