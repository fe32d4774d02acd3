"""Which of golden's changes the grade depends on: those that cost points when undone.

Reading tools may keep a log or a cache in the state. An agent that reads other things leaves another log, which is not wrong.
"""

from collections import defaultdict
from collections.abc import Collection, Sequence
from typing import Any, cast

from sandlot.audit.case import Case, regrade_changed
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
    after, before = work.golden.evidence, work.idle.evidence
    parts: dict[_Part, set[str]] = defaultdict(set)
    keys = {*_keys(before.state), *_keys(after.state)}
    for place in sorted(work.changes):
        parts[_part(place, keys)].add(place)
    asked = [
        (places, regrade_changed(work.golden, work.idle.files, **_put_back(after, before, part)))
        for part, places in parts.items()
    ]
    return [(places, request) for places, request in asked[:_MOST] if request.trace.evidence != after]  # else nothing was undone


def _keys(state: Any) -> list[str]:
    return list(cast("Json", state)) if isinstance(state, dict) else []


def _part(place: str, keys: Collection[str]) -> _Part:
    """`orders` for `state.orders.3.units`. Keys may contain dots, so the longest that fits. A file is one part."""
    kind, _, rest = place.partition(".")
    if kind == "files":
        return kind, rest
    return kind, max((key for key in keys if rest == key or rest.startswith(f"{key}.")), key=len, default=None)


def _put_back(after: EvidenceRecord, before: EvidenceRecord, part: _Part) -> Json:
    """The field of the evidence that a part is in, with the part as it was before."""
    kind, name = part
    if kind == "files":
        rest = {path: file for path, file in after.files.items() if path != name}
        return {"files": rest | {path: file for path, file in before.files.items() if path == name}}
    if name is None or not isinstance(after.state, dict) or not isinstance(before.state, dict):
        return {"state": before.state}
    old = cast("Json", before.state)
    rest = {each: value for each, value in cast("Json", after.state).items() if each != name}
    return {"state": rest | ({name: old[name]} if name in old else {})}
