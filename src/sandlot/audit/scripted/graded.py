"""Which parts of what golden left the grade depends on: those whose loss costs something.

A tool that only reads may keep a log or a memo in the state. Whoever reads something else leaves another log, and has done
nothing wrong.
"""

from collections.abc import Sequence
from typing import Any, cast

import msgspec

from sandlot.audit.case import Case
from sandlot.audit.scripted.reach import Work
from sandlot.audit.subject import Regrade
from sandlot.trace import EvidenceRecord
from sandlot.types import Json

MOST = 12
"""Parts of one task that are looked at; of the rest it is taken that they count."""


async def graded_changes(case: Case, found: Sequence[Work]) -> dict[str, set[str]]:
    """For each task the places golden changed that count: put back as they were, they cost points."""
    changes = {work.task.id: set(work.changes) for work in found}
    asked = [(work, part, request) for work in found for part, request in _without_each(work, changes[work.task.id])]
    trials = await case.take([request for _, _, request in asked])
    for (work, part, _), trial in zip(asked, trials, strict=True):
        if trial.passed:
            changes[work.task.id] -= {place for place in changes[work.task.id] if _is_below(place, part)}
    return changes


def _without_each(work: Work, changes: set[str]) -> list[tuple[str, Regrade]]:
    """Golden's evidence with one part of the state, or one file, as it was at the start."""
    trace = work.golden.trace
    before = work.idle.trace.evidence if work.idle.trace else None
    if trace is None or trace.evidence is None or before is None:
        return []
    found: list[tuple[str, Regrade]] = []
    for part in sorted({_part(place) for place in changes})[:MOST]:
        record = _put_back(trace.evidence, before, part)
        files = work.idle.files | work.golden.files
        found.append((part, Regrade(trace=msgspec.structs.replace(trace, evidence=record), files=files)))
    return found


def _part(place: str) -> str:
    """`state.orders` of `state.orders.3.units`; a file is one part."""
    return place if place.startswith("files.") else ".".join(place.split(".")[:2])


def _is_below(place: str, part: str) -> bool:
    return place == part or place.startswith(f"{part}.")


def _put_back(evidence: EvidenceRecord, before: EvidenceRecord, part: str) -> EvidenceRecord:
    kind, _, name = part.partition(".")
    if kind == "files":
        rest = {path: file for path, file in evidence.files.items() if path != name}
        return msgspec.structs.replace(evidence, files=rest | ({name: before.files[name]} if name in before.files else {}))
    state: Any = before.state
    if name and isinstance(evidence.state, dict) and isinstance(before.state, dict):
        old = cast("Json", before.state)
        state = {each: value for each, value in cast("Json", evidence.state).items() if each != name}
        state |= {name: old[name]} if name in old else {}
    return msgspec.structs.replace(evidence, state=state)
