"""Sandboxes: a machine for one rollout, that the agent cannot leave.

Read `native.py` first: what a sandbox is here (layers and one machine), how it is frozen and forked. `zygote.py` is the other
side of the process that makes machines, `agent/` the C program that is both that process and the agent inside; `wire.py` is what
the two say to each other. `docker.py` makes the same machines with a Docker engine (`engine.py`). `images/` is what sandboxes
start from. `memory.py` is for worlds that need no machine.
"""
