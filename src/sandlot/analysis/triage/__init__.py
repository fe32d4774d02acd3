"""Groups the failures and suspicious successes of a run, proposes rollouts to read, and stores labels of people.

Read `triage.py` first. `signature.py` says when two rollouts failed in the same way, `contrast.py` finds what passing rollouts do
differently, `scanner.py` looks for typical actions of reward hacks, `strata.py` samples rollouts to read, `labels.py` stores
labels.
"""
