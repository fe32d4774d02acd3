"""Adversaries who look before they act."""

from sandlot.model.agent import Solution

ADVERSARIES: dict[str, Solution] = {}
