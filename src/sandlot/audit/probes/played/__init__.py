"""Probes that read finished rollouts: of a model, and labelled by people."""
