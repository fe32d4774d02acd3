"""Runs, groups and traces in the browser."""
