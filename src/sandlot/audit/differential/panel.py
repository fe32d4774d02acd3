"""The differential layer: the same trials under other conditions, and whatever is not the same afterwards."""

from sandlot.audit.case import Probe
from sandlot.audit.differential import neighbours, regrading, resets, surroundings

PROBES: tuple[Probe, ...] = (*resets.PROBES, *neighbours.PROBES, *surroundings.PROBES, *regrading.PROBES)
