"""Trackers of others: each module opens one, and imports its package only when it is opened."""
