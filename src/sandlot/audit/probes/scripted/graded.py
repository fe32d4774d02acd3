"""Which of golden's changes the grade depends on: those that cost points when undone.

Reading tools may keep a log or a cache in the state. An agent that reads other things leaves another log, which is not wrong.
"""

from collections import defaultdict
from collections.abc import Collection, Sequence
from typing import Any, cast

import msgspec

from sandlot.audit.case import Case
from sandlot.audit.probes.scripted.reach import GoldenWork
from sandlot.audit.subject import Regrade
from sandlot.core.trace import EvidenceRecord
from sandlot.core.types import Json

_MOST = 12
"""Parts per task that are tested; the others are assumed to count."""


_Part = tuple[str, str | None]
"""`files` or `state`, and which file or key; None for the whole state, where it has no keys."""


async def find_graded_changes(case: Case, found: Sequence[GoldenWork]) -> dict[str, set[str]]:
    """For each task the places that golden changed and that cost points when they are put back."""
    changes = {work.task.id: set(work.changes) for work in found}
    asked = [(work, places, request) for work in found for places, request in _without_each(work)]
    trials = await case.take([request for _, _, request in asked])
    for (work, places, _), trial in zip(asked, trials, strict=True):
        if trial.passed:
            changes[work.task.id] -= places
    return changes


def _without_each(work: GoldenWork) -> list[tuple[set[str], Regrade]]:
    """Golden's evidence with one part put back as it was at the start, each with the places that this undoes."""
    trace = work.golden.trace
    before = work.idle.trace.evidence if work.idle.trace else None
    if trace is None or trace.evidence is None or before is None:
        return []
    parts: dict[_Part, set[str]] = defaultdict(set)
    keys = {*_keys(before.state), *_keys(trace.evidence.state)}
    for place in sorted(work.changes):
        parts[_part(place, keys)].add(place)
    found: list[tuple[set[str], Regrade]] = []
    for part, places in list(parts.items())[:_MOST]:
        record = _put_back(trace.evidence, before, part)
        if record != trace.evidence:  # else nothing was undone
            files = work.idle.files | work.golden.files
            found.append((places, Regrade(trace=msgspec.structs.replace(trace, evidence=record), files=files)))
    return found


def _keys(state: Any) -> list[str]:
    return list(cast("Json", state)) if isinstance(state, dict) else []


def _part(place: str, keys: Collection[str]) -> _Part:
    """`orders` for `state.orders.3.units`. Keys may contain dots, so the longest that fits. A file is one part."""
    kind, _, rest = place.partition(".")
    if kind == "files":
        return kind, rest
    return kind, max((key for key in keys if rest == key or rest.startswith(f"{key}.")), key=len, default=None)


def _put_back(evidence: EvidenceRecord, before: EvidenceRecord, part: _Part) -> EvidenceRecord:
    kind, name = part
    if kind == "files":
        rest = {path: file for path, file in evidence.files.items() if path != name}
        return msgspec.structs.replace(evidence, files=rest | {path: file for path, file in before.files.items() if path == name})
    state: Any = before.state
    if name is not None and isinstance(evidence.state, dict) and isinstance(before.state, dict):
        old = cast("Json", before.state)
        state = {each: value for each, value in cast("Json", evidence.state).items() if each != name}
        state |= {name: old[name]} if name in old else {}
    return msgspec.structs.replace(evidence, state=state)
