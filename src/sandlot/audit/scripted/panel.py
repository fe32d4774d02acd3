"""The scripted layer: every probe that plays rollouts through the world and the tools an agent has."""

from sandlot.audit.case import Probe
from sandlot.audit.scripted import floor, staleness

PROBES: tuple[Probe, ...] = (*floor.PROBES, *staleness.PROBES)
