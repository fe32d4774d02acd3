"""Policies: what takes a turn in a rollout."""
