"""Measures how reliable a judge model is."""
