"""Wiring: from specs and configs to open models, judges, sandboxes and harnesses. Read `parts.py`, then `models.py`."""
