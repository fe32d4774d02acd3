"""Calibration: how hard tasks are for a model (`sandlot calibrate`), how good a judge or simulated user is (`sandlot judge`).

Read `tasks/calibrate.py` first. `rule.py`, `prior.py`, `rates.py` and `allocate.py` beside it are the statistics: pure functions
of counts.
"""
