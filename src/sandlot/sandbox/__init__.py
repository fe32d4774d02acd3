"""Sandboxes: an isolated machine for one rollout.

- `native/`: sandboxes from Linux namespaces. Read `native/backend.py` first: layers and one machine, frozen and forked.
- `docker/`: the same sandboxes from a Docker engine.
- `link/`: the connection to the program inside. `agent/` is that program, in C; it also starts native sandboxes.
- `images/`: what sandboxes start from. `memory.py` is for worlds that need no machine.
"""
