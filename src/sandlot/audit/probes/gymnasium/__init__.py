"""Probes for Gymnasium environments."""
