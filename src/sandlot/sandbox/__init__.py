"""Sandboxes: where a world's files and processes live. Read `memory.py` for worlds that need no machine."""
