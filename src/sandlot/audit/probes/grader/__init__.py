"""Flaws of graders, asked directly: answers and evidence that were never played.

Read `asking.py` first: how answers are put to a grader. `hollow.py` (answers without the work), `matching.py` (right answers
spelled otherwise, wrong ones that are near), `odd.py` (what crashes it), `again.py` (the same twice), `ladder.py` (partial work)
and `criteria.py` (checks that decide nothing) are the questions; `judged.py` is for judges.
"""
