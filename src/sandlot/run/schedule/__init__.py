"""Which rollout is served next and how many at once, as pure code: decisions are a function of state, without input or output.

Read `policies.py` for the order and `admission.py` for the number. Live runs and the simulator (`run/simulate`) use the same
order; the number is decided in live runs only.
"""
