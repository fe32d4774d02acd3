"""Sandboxes from a Docker engine."""
