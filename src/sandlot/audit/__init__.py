"""Judging environments: probes, their findings, and the verdict."""
