"""Many rollouts: take them, keep them, sum them up, compare them, and stop when something is broken.

Read `run.py` first: it is the road from a config to a directory of graded traces. `breaker.py` says when to stop, `summary.py`
what came out, `compare.py` what changed, `forecast.py` what it will cost, `taxonomy.py` what each way of going wrong is called.
"""
