"""Wiring: from what a person typed to live parts, without branching on features. Read `parts.py`, then `models.py`."""
