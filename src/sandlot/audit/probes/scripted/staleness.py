"""Stale observations: after a write, a second read must show what a first read would show.

For every reading tool and every write of the golden solution, two scripts are played in fresh worlds: `read, write, read` and
`write, read`. The result is stale if both reads of the first script are equal although the read of the second script differs.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from sandlot.audit.case import Case, Probe
from sandlot.audit.finding import Finding, Layer, make_finding
from sandlot.audit.probes.likeness import mask_volatile, observations
from sandlot.audit.probes.plays import choose_tasks, request_for, witness_of
from sandlot.audit.probes.scripted.drift import room_for
from sandlot.audit.probes.scripted.floor import needs_both
from sandlot.audit.probes.scripted.reach import GoldenWork, find_works, properties_of, required_of
from sandlot.audit.subject import Call, Script, Trial
from sandlot.core.ports.world import ToolSpec

_TASKS, _SANDBOXED = 5, 1
_CANDIDATES = 6
"""Most ways to call one reading tool."""


@dataclass(frozen=True, slots=True)
class _StaleRead:
    """One read with one write."""

    work: GoldenWork
    read: Call
    writes: tuple[Call, ...]

    def script(self, *, first: bool) -> Script:
        """Read (if `first`), write, read."""
        acts = [*([self.read] if first else []), *self.writes, self.read]
        return Script(name="read-write-read" if first else "write-read", turns=tuple((act,) for act in acts))


async def _look_at_staleness(case: Case) -> list[Finding]:
    """No tool shows the state from before a change."""
    readings = [
        reading
        for work in await find_works(case, choose_tasks(case, _TASKS, sandboxed=_SANDBOXED))
        for reading in _readings(case, work)
    ]
    plays = [(each.work.task, each.script(first=first)) for each in readings for first in (True, False)]
    trials = await case.take([request_for(case, *play) for play in plays], room_for(script for _, script in plays))
    stale: dict[str, list[tuple[_StaleRead, str, str]]] = {}
    for place, reading in enumerate(readings):
        shown = _stale_text(reading, trials[2 * place], trials[2 * place + 1], case.description.declared.volatile)
        if shown is not None:
            stale.setdefault(reading.read.tool, []).append((reading, *shown))
    return [_finding(case, tool, each) for tool, each in stale.items()]


def _stale_text(reading: _StaleRead, twice: Trial, once: Trial, volatile: Sequence[str]) -> tuple[str, str] | None:
    """The stale result and the right one; None if the read is not stale."""
    first, control = observations(twice), observations(once)
    length = len(reading.writes)
    if len(first) != length + 2 or len(control) != length + 1:
        return None
    if [each.text for each in first[1:-1]] != [each.text for each in control[:-1]]:
        return None  # the write gave another result after a read, so the two scripts cannot be compared
    before, after, fresh = (mask_volatile(shown.text, volatile) for shown in (first[0], first[-1], control[-1]))
    if first[0].error or first[-1].error or control[-1].error:
        return None
    return (after, fresh) if after == before != fresh else None


def _finding(case: Case, tool: str, stale: Sequence[tuple[_StaleRead, str, str]]) -> Finding:
    reading, shown, fresh = min(stale, key=lambda each: len(each[0].writes))
    title = f"`{tool}` shows the state from before `{reading.writes[-1].tool}`"
    expected = f"what a first read after the change shows: {fresh[:300]!r}"
    observed = f"what was read before the change: {shown[:300]!r}"
    witness = witness_of(case, reading.work.task, reading.script(first=True), expected, observed)
    count = len({each[0].work.task.id for each in stale})
    return make_finding("D01.stale", title, witness, count=count)


# -- reads and writes --------------------------------------------------------------------------------------------------


def _readings(case: Case, work: GoldenWork) -> Iterator[_StaleRead]:
    eventual = case.description.declared.eventual
    for spec in case.description.tools:
        if spec.name in eventual or (work.shell is not None and spec.name == work.shell.tool):
            continue
        others = [call for call in work.calls if call.tool != spec.name]
        deeds = [tuple(others[-1:]), tuple(others)][: len(others)]
        for read in _calls(spec, work):
            for deed in deeds:
                yield _StaleRead(work, read, deed)


def _calls(spec: ToolSpec, work: GoldenWork) -> list[Call]:
    """Likely calls of a tool: golden's own, with values golden used under the same name, with words golden wrote."""
    own = [call for call in work.calls if call.tool == spec.name]
    required = required_of(spec)
    known: dict[str, list[Any]] = {name: [] for name in required}
    for call in reversed(work.calls):
        for name, value in call.arguments.items():
            if name in known and value not in known[name]:
                known[name].append(value)
    made: list[Call] = []
    unknown = [name for name in required if not known[name]]
    if not unknown:
        made = [Call(spec.name, {name: known[name][min(turn, len(known[name]) - 1)] for name in required}) for turn in range(2)]
    elif len(unknown) == 1 and properties_of(spec).get(unknown[0], {}).get("type") == "string":
        fixed = {name: values[0] for name, values in known.items() if values}
        made = [Call(spec.name, {**fixed, unknown[0]: word}) for word in _words(work)]
    calls = [*made, *own] if made else own
    return [call for place, call in enumerate(calls) if call not in calls[:place]][:_CANDIDATES]


def _words(work: GoldenWork) -> list[str]:
    """Words that golden wrote, for search tools."""
    texts = [value for call in work.calls for value in call.arguments.values() if isinstance(value, str)]
    whole = [text for text in texts if len(text) <= 40]
    split = [word for text in texts for word in re.findall(r"[\w.-]*\w", text) if len(word) > 1 or word.isdigit()]
    numbers = [word for word in split if any(letter.isdigit() for letter in word)]
    return list(dict.fromkeys([*numbers[-3:], *whole[-2:], *split]))


PROBES = (Probe("stale-readings", Layer.SCRIPTED, ("D01",), _look_at_staleness, needs_both),)
