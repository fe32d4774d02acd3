"""Policies, which take the turns of a rollout, and users that a persona is played by."""
