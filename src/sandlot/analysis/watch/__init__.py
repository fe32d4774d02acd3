"""Watching a live run or training by rules, and raising alerts."""
