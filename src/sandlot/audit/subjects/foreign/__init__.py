"""Auditing what others wrote: plain graders and Gymnasium environments, in a sandbox.

Read `grader.py` first: a plain Python grader as a subject; `gym.py` is the same for a Gymnasium environment, with probes of its
own in `promises.py` and `solved.py`. `worker.py` holds the other end of a program in a sandbox, whose text is in `inside/`;
`python.py` says which folders a Python needs there.
"""
