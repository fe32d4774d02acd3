"""Repair tasks from repositories: planted bugs, releases, SWE-bench rows."""
