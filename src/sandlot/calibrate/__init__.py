"""Which tasks can teach a model, and who says so: `sandlot calibrate` places tasks in a band, `sandlot judge` measures a judge.

`rule.py`, `prior.py`, `rates.py` and `allocate.py` are the statistics, pure functions of counts; `calibrate.py` is the main road.
"""
