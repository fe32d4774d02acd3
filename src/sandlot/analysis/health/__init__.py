"""Whether the environment of a run is sound, as far as the run can show it: one small question a file, one `Item` an answer.

Read `health.py` first. Everything is read from the store; only `sentinel.py` opens the environment again, for a few rollouts.
"""
