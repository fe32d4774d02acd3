"""The static layer: what can be read."""

from sandlot.audit.case import Probe
from sandlot.audit.static import caches, handlers, host, outside, rounding, sharing, trust

PROBES: tuple[Probe, ...] = (caches.PROBE, trust.PROBE, handlers.PROBE, sharing.PROBE, host.PROBE, rounding.PROBE, outside.PROBE)
