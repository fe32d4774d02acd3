"""Gymnasium and PettingZoo, both ways. Only files here import them, and only when they are used."""
