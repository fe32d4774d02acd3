"""Where the rollouts of a run are taken: in this process, in worker processes, or on a cluster. Read `executor.py` first."""
