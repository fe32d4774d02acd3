"""Inspect AI: its logs as runs, its tasks as environments, our environments as its tasks."""
