"""Foreign code as subjects of an audit: plain graders and Gymnasium environments, in a sandbox.

Read `grader.py` first: a plain Python grader as a subject. `gym.py` is the same for a Gymnasium environment. `worker.py` starts
the programs of `inside/` in a sandbox and talks to them; `python.py` finds the folders that a Python needs there.
"""
