"""The static layer: what can be read."""

from sandlot.audit.case import Probe
from sandlot.audit.static import (
    actions,
    caches,
    handlers,
    host,
    leaks,
    manifest,
    markup,
    outside,
    overlap,
    realism,
    requirements,
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
    leaks.PROBE,
    overlap.PROBE,
    markup.PROBE,
    realism.PROBE,
    actions.PROBE,
    manifest.PROBE,
    requirements.PROBE,
    rubrics.PROBE,
)
