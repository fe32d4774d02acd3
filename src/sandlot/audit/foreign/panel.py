"""What is asked of a Gymnasium environment: what can be read of its code, and the promises it makes.

Tasks, tools, rubrics and answers are not looked at: it has none of its own.
"""

from sandlot.audit.case import Probe
from sandlot.audit.foreign import promises, solved
from sandlot.audit.static import caches, handlers, host, outside, rounding, sharing, trust

READ: tuple[Probe, ...] = (
    caches.PROBE,
    trust.PROBE,
    handlers.PROBE,
    sharing.PROBE,
    host.PROBE,
    rounding.PROBE,
    outside.PROBE,
)
PROBES: tuple[Probe, ...] = (*promises.PROBES, *solved.PROBES)
