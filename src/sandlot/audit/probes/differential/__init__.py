"""Probes that repeat a trial under other conditions."""
