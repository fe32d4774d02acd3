"""Training over several processes."""
