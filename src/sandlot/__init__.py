"""Sandlot: reinforcement-learning environments for language-model agents."""
