"""Flaws that show when somebody acts: adversaries, controls and mutants of the golden solution."""
