"""The order in which rollouts are served, as pure code: decisions are a function of state, with no clock and no input or output.

Read `policies.py` first. The simulator (`run/simulate`) uses these classes; live runs and trainings do not yet.
"""
