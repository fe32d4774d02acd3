"""Probes that grade answers and evidence which no agent produced.

Read `asking.py` first: it grades answers without playing. `hollow.py` (answers without work), `matching.py` (right answers in
other formats, and near misses), `odd.py` (what crashes the grader), `again.py` (repeated gradings), `ladder.py` (partial work)
and `criteria.py` (checks that are always met) use it; `judged.py` is for judges.
"""
