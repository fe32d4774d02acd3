"""Keeping: everything a run produced, on disk, exactly once.

Read `directory.py` first (`open_run`: what a writer holds), then `frames.py` (how bytes become durable), `traces.py` (the log
and when it is sealed), `segments.py` (what it is sealed into), `reader.py` (`RunReader`: looking at a live or finished run).
"""
