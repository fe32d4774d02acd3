"""The grader layer: every probe that asks a grader about answers and evidence nobody played."""

from sandlot.audit.case import Probe
from sandlot.audit.grader import again, criteria, hollow, judged, ladder, matching, odd

PROBES: tuple[Probe, ...] = (
    *again.PROBES,
    *hollow.PROBES,
    *matching.PROBES,
    *odd.PROBES,
    *ladder.PROBES,
    *criteria.PROBES,
    *judged.PROBES,
)
