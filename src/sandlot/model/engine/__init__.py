"""The embedded engine: token ids in, token ids and log-probabilities out, every common prefix computed once.

Read `engine.py` first: one screen shows `step()`. Then `tree.py` (the prefix tree over paged KV blocks) and `batch.py` (what one
forward pass is given). Needs the `torch` extra.
"""
