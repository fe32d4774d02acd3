"""What went wrong in a run, sorted: clusters of failures and of odd successes, what people should read, and what they said.

Read `triage.py` first. `signature.py` says when two rollouts went wrong alike, `contrast.py` what passing ones do otherwise,
`scanner.py` looks for deeds that hacks are made of, `strata.py` draws what to read, `labels.py` keeps what was said.
"""
