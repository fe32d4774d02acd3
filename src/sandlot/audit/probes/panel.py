"""Every probe, by layer. Layers run cheapest first."""

from sandlot.audit.case import Probe
from sandlot.audit.finding import Layer
from sandlot.audit.probes.differential import neighbours, regrading, resets, surroundings
from sandlot.audit.probes.grader import again, criteria, hollow, judged, ladder, matching, odd
from sandlot.audit.probes.gymnasium import promises, solved
from sandlot.audit.probes.played import health, labels
from sandlot.audit.probes.scripted import (
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
from sandlot.audit.probes.static import (
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

STATIC: tuple[Probe, ...] = (
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
"""What can be read in the environment's code and files, without running it."""

GRADER: tuple[Probe, ...] = (
    *again.PROBES,
    *hollow.PROBES,
    *matching.PROBES,
    *odd.PROBES,
    *ladder.PROBES,
    *criteria.PROBES,
    *judged.PROBES,
)
"""Asks the grader about answers and evidence that no agent produced."""

SCRIPTED: tuple[Probe, ...] = (
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
"""Plays scripted agents through the world and its tools."""

DIFFERENTIAL: tuple[Probe, ...] = (*resets.PROBES, *neighbours.PROBES, *surroundings.PROBES, *regrading.PROBES)
"""Repeats the same trials under other conditions and compares the results."""

FINISHED_ROLLOUTS: tuple[Probe, ...] = (
    Probe(
        name=health.NAME,
        layer=Layer.MODEL,
        codes=tuple(sorted(set(health.CODES.values()))),
        look=health.look_at_health,
        applies=lambda case: None if case.rollouts else "no model was given",
    ),
    Probe(
        name=labels.NAME,
        layer=Layer.PEOPLE,
        codes=tuple(sorted(set(labels.CODES.values()))),
        look=labels.look_at_labels,
        applies=lambda case: None if case.reviewed else "no labelled run was given",
    ),
)
"""Reads finished rollouts: a model's, and those that people labelled."""

GYMNASIUM_STATIC: tuple[Probe, ...] = (
    caches.PROBE,
    trust.PROBE,
    handlers.PROBE,
    sharing.PROBE,
    host.PROBE,
    rounding.PROBE,
    outside.PROBE,
)
"""The static probes that read code only."""
GYMNASIUM: tuple[Probe, ...] = (*promises.PROBES, *solved.PROBES)
"""What a Gymnasium environment promises. It has no tasks, tools or rubric of its own to look at."""
