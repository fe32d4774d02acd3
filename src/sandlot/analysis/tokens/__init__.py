"""Checks that the tokens of a stored run are the tokens its model sampled."""
