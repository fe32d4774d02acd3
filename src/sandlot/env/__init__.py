"""Environments: how authors write them, how they are found, and what a rollout opens.

Read `environment.py` for what an author declares, then `session.py` for what a rollout does with it. The three forms
(`function.py`, one file, `folder.py`) all load to the one `Environment`.
"""
