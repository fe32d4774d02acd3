"""Experiment trackers: each module opens one, and imports its package only then."""
