"""Grading: rubrics asked of stored evidence, with points and a reason for every check.

Read `grading.py` first (the road: order, ask, add up), then `checks.py` (how one function is called) and `judge.py` (how a
grader model is asked). `evidence.py` is what checks see. Nothing here touches a live world: grading and re-grading are the
same function on the same stored bytes, and whatever breaks leaves the rollout without a score, never with a zero.
"""
