"""Reads stored runs: health, triage, token audits."""
