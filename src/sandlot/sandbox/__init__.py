"""Sandboxes: a machine per rollout, in milliseconds, that the agent under test cannot leave.

`native.py` is the road: a backend starts a small C program (`agent/`, the zygote), which makes sandboxes by namespaces and stays
inside each as process 1, serving commands and files over one socket (`wire.py`, `link.py`). Read `native.py` first, then
`agent/zygote.c`. What is isolated, and what is not, is said in `docs/concepts/sandboxes.md` and by `probe.py`.
"""
