"""Flaws that show between two runs of the same thing under other conditions."""
