"""Probes that play scripted agents: adversaries, controls and mutants of the golden solution."""
