"""Checks a stored run for signs of a broken environment: one check per file, each returns a `HealthItem`.

Read `health.py` first. Everything is read from the store; only `sentinel.py` opens the environment again, for a few rollouts.
"""
