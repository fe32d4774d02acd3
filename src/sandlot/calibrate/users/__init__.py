"""Measures how well a model plays the user."""
