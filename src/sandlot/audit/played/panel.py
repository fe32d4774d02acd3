"""The probes that read finished rollouts."""

from sandlot.audit.case import Probe
from sandlot.audit.finding import Layer
from sandlot.audit.played import health, labels

PROBES = (
    Probe(
        name=health.NAME,
        layer=Layer.MODEL,
        codes=tuple(sorted(set(health.CODES.values()))),
        look=health.unhealthy,
        applies=lambda case: None if case.rollouts else "no model was given",
    ),
    Probe(
        name=labels.NAME,
        layer=Layer.PEOPLE,
        codes=tuple(sorted(set(labels.CODES.values()))),
        look=labels.labelled,
        applies=lambda case: None if case.reviewed else "no labelled run was given",
    ),
)
