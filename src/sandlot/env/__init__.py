"""Environments: how authors write them, how they are loaded, and what a rollout opens.

Read `environment.py` for what an author declares, then `session.py` for what a rollout does with it. All three forms (one
function, one file, a folder) load to an `Environment`.
"""
