"""Intervals, tests and agreement."""
