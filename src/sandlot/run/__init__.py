"""Runs of many rollouts: taking, storing, summarising and comparing them.

Read `run.py` first: it goes from a config to a directory of graded traces. `prepare.py` settles what is run, `collector.py` takes
and stores the rollouts, `breaker.py` stops a run that is broken, `summary.py` sums it up, `compare.py` compares two, and
`forecast.py` estimates what a run will cost.
"""
