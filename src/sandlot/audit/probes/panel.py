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
    prose,
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
    material,
    outside,
    overlap,
    realism,
    requirements,
    rounding,
    rubrics,
    sharing,
    trust,
)

GYMNASIUM_STATIC: tuple[Probe, ...] = (
    caches.PROBE,
    trust.PROBE,
    handlers.PROBE,
    sharing.PROBE,
    host.PROBE,
    rounding.PROBE,
    outside.PROBE,
)
"""Static probes that read only code."""
STATIC: tuple[Probe, ...] = (
    *GYMNASIUM_STATIC,
    leaks.PROBE,
    overlap.PROBE,
    markup.PROBE,
    realism.PROBE,
    actions.PROBE,
    manifest.PROBE,
    material.PROBE,
    requirements.PROBE,
    rubrics.PROBE,
)
"""Read the environment's code and files without running them."""

GRADER: tuple[Probe, ...] = (
    *again.PROBES,
    *hollow.PROBES,
    *matching.PROBES,
    *odd.PROBES,
    *ladder.PROBES,
    *criteria.PROBES,
    *judged.PROBES,
)
"""Grade answers and evidence that no agent produced."""

SCRIPTED: tuple[Probe, ...] = (
    *controls.PROBES,
    *floor.PROBES,
    *staleness.PROBES,
    *drift.PROBES,
    *saving.PROBES,
    *mutation.PROBES,
    *prose.PROBES,
    *faults.PROBES,
    *visibility.PROBES,
    *lookup.PROBES,
    *copied.PROBES,
    *reading.PROBES,
)
"""Play scripted agents in the world with its tools."""

DIFFERENTIAL: tuple[Probe, ...] = (*resets.PROBES, *neighbours.PROBES, *surroundings.PROBES, *regrading.PROBES)
"""Repeat trials under other conditions and compare the results."""

FINISHED_ROLLOUTS: tuple[Probe, ...] = (
    Probe(
        name="model-rollouts",
        layer=Layer.MODEL,
        codes=tuple(sorted(set(health.CODES.values()))),
        look=health.look_at_health,
        applies=lambda case: None if case.rollouts else "no model was given",
    ),
    Probe(
        name="labels",
        layer=Layer.PEOPLE,
        codes=tuple(sorted(set(labels.CODES.values()))),
        look=labels.look_at_labels,
        applies=lambda case: None if case.reviewed else "no labelled run was given",
    ),
)
"""Read finished rollouts: of a model, and those that people labelled."""

GYMNASIUM: tuple[Probe, ...] = (*promises.PROBES, *solved.PROBES)
"""The Gymnasium interface. Such environments have no tasks, tools or rubric."""
