"""The static layer: what can be read."""

from sandlot.audit.case import Probe
from sandlot.audit.static import (
    actions,
    caches,
    handlers,
    host,
    manifest,
    markup,
    outside,
    overlap,
    rounding,
    rubrics,
    sharing,
    trust,
)

PROBES: tuple[Probe, ...] = (
    caches.PROBE,
    trust.PROBE,
    handlers.PROBE,
    sharing.PROBE,
    host.PROBE,
    rounding.PROBE,
    outside.PROBE,
    overlap.PROBE,
    markup.PROBE,
    actions.PROBE,
    manifest.PROBE,
    rubrics.PROBE,
)
