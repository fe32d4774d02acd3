"""Data of others before it becomes tasks: read with its provenance, without duplicates, checked, described, redacted."""
