"""The run directory: every rollout of a run on disk, exactly once.

Read `directory.py` first (`open_run`, for writing), then `frames.py` (how bytes become durable), `traces.py` (the log and when it
is sealed), `segments.py` (the Parquet files it is sealed into), `reader.py` (`RunReader`, for a live or finished run).
"""
