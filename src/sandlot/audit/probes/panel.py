"""Every probe, by layer. Layers run cheapest first."""

from sandlot.audit.attacker import loop
from sandlot.audit.case import Probe
from sandlot.audit.finding import Layer
from sandlot.audit.probes.differential import neighbours, regrading, resets, surroundings
from sandlot.audit.probes.grader import (
    again,
    choices,
    criteria,
    evaluated,
    hollow,
    inside,
    judged,
    ladder,
    markers,
    matching,
    odd,
    orders,
    padding,
    restated,
)
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
    turns,
    visibility,
)
from sandlot.audit.probes.search import answers, calls, checks, impossible, written
from sandlot.audit.probes.static import (
    actions,
    caches,
    damaged_prompts,
    handlers,
    host,
    leaks,
    lost_text,
    manifest,
    markup,
    material,
    outside,
    overlap,
    realism,
    requirements,
    rounding,
    rubrics,
    seats,
    sharing,
    trust,
)

GYMNASIUM_STATIC: tuple[Probe, ...] = (
    caches.PROBE,
    trust.PROBE,
    handlers.PROBE,
    sharing.PROBE,
    seats.PROBE,
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
    lost_text.PROBE,
    damaged_prompts.PROBE,
    rubrics.PROBE,
)
"""Read the environment's code and files without running them."""

GRADER: tuple[Probe, ...] = (
    *again.PROBES,
    *orders.PROBES,
    *evaluated.PROBES,
    *hollow.PROBES,
    *inside.PROBES,
    *restated.PROBES,
    *markers.PROBES,
    *padding.PROBES,
    *choices.PROBES,
    *matching.PROBES,
    *odd.PROBES,
    *ladder.PROBES,
    *criteria.PROBES,
    *judged.PROBES,
    *answers.PROBES,
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
    *turns.PROBES,
    *calls.PROBES,
    *checks.PROBES,
    *impossible.PROBES,
    *written.PROBES,
)
"""Play scripted agents in the world with its tools."""

DIFFERENTIAL: tuple[Probe, ...] = (*resets.PROBES, *neighbours.PROBES, *surroundings.PROBES, *regrading.PROBES)
"""Repeat trials under other conditions and compare the results."""

FINISHED_ROLLOUTS: tuple[Probe, ...] = (
    loop.PROBE,
    Probe(
        name="model-rollouts",
        layer=Layer.MODEL,
        codes=tuple(sorted({*health.CODES.values(), "D16"})),
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
"""What others add: plays that an attacker proposes, finished rollouts of a model, and those that people labelled."""

GYMNASIUM: tuple[Probe, ...] = (*promises.PROBES, *solved.PROBES)
"""The Gymnasium interface. Such environments have no tasks, tools or rubric."""
