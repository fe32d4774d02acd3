"""Sandboxes: an isolated machine for one rollout.

- `sandbox.py`: the life of a sandbox, the same for every backend. Read it first. `pool.py` keeps machines ready, `backend.py`
  opens and forks.
- `native/`: machines from Linux namespaces, on stacked layers. `docker/`: machines from a Docker engine.
- `link/`: the connection to the program inside. `agent/` is that program, in C; it also starts native sandboxes.
- `images/`: what sandboxes start from. `memory.py`: files for worlds that need no machine.
"""
