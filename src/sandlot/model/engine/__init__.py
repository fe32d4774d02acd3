"""The embedded engine: it continues token ids and returns ids with log-probabilities; common prefixes are computed once.

Read `engine.py` first, from `step()`. Then `tree.py` (the prefix tree over paged KV blocks) and `batch.py` (the input of a
forward pass). Needs the `torch` extra.
"""
