"""Learning: from graded rollouts to better weights.

Read `loop.py` first: collect, weigh, update, publish, on one screen. Then `algorithms.py` (traces to per-token streams),
`components.py` (what a stream costs) and `forest.py` (shared prefixes computed once). Needs the `torch` extra.
"""
