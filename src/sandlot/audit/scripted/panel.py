"""The scripted layer: every probe that plays rollouts through the world and the tools an agent has."""

from sandlot.audit.case import Probe
from sandlot.audit.scripted import (
    controls,
    copied,
    drift,
    faults,
    floor,
    lookup,
    mutation,
    reading,
    saving,
    staleness,
    visibility,
)

PROBES: tuple[Probe, ...] = (
    *controls.PROBES,
    *floor.PROBES,
    *staleness.PROBES,
    *drift.PROBES,
    *saving.PROBES,
    *mutation.PROBES,
    *faults.PROBES,
    *visibility.PROBES,
    *lookup.PROBES,
    *copied.PROBES,
    *reading.PROBES,
)
