"""Grading: the checks of a rubric run on stored evidence, with points and a reason for each.

Read `grading.py` first (order the checks, run them, add up), then `checks.py` (how a function is called) and `judge.py` (how a
grader model is asked). `evidence.py` is what checks see. Nothing here uses a live world, so grading and re-grading are the same
function on the same stored bytes. If a check fails to run, the rollout has no score, which is not a score of 0.
"""
