"""Rows with shared prefixes as one batch: each prefix is computed once."""
