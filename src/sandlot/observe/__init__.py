"""Watching a run while it lives: who blocks the event loop (`lag.py`), how far it is and how it goes (`progress.py`).

Read `progress.py` first. Nothing here prints, and nothing here changes what a rollout does.
"""
