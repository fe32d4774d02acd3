"""What passing rollouts of the same tasks do that failing ones do not.

One trace alone seldom shows why it failed; two of the same task do. A rollout is a set of *deeds*: tools called, errors met, how
it began and ended. Over the tasks in which both happened, the deed whose share differs most is the contrast, if Fisher's test
with Holm's correction finds it more than chance. Where no deed differs, their lengths may.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from sandlot.core.stats.differences import fisher, rank_difference
from sandlot.core.stats.intervals import quantile
from sandlot.core.stats.tests import holm
from sandlot.core.text import one_line
from sandlot.core.trace import Trace
from sandlot.core.types import Role

ALPHA = 0.05
_FEWEST = 3
"""Rollouts of each kind, in tasks that have both."""
_SEPARATE = 0.8
"""How often one kind must be longer than the other for lengths to be worth a line."""
_NAME_CHARS = 60


@dataclass(frozen=True, slots=True)
class Doing:
    """One rollout, for comparing."""

    task: str
    rollout: int
    deeds: frozenset[str]
    turns: int


class Contrast(msgspec.Struct, frozen=True, kw_only=True):
    """A difference between passing rollouts and these, over tasks that have both."""

    said: str
    deed: str = ""
    passing: int
    passing_with: int
    these: int
    these_with: int
    p_value: float
    tasks: int
    pair: tuple[str, str]
    """A passing rollout and one of these, of the same task, that show it: `TASK/ROLLOUT` each."""


def doing_of(trace: Trace) -> Doing:
    """What was done in a trace."""
    deeds: set[str] = set()
    order: list[str] = []
    names: dict[str, str] = {}
    for node in trace.nodes:
        if node.is_turn:
            for call in node.message.calls:
                name = f"`{one_line(call.name, _NAME_CHARS)}`"
                names[call.id] = name
                order.append(name)
                deeds.add(f"call {name}" if call.malformed is None else "write calls that cannot be read")
        for result in node.message.results:
            if result.error:
                deeds.add(f"get an error from {names.get(result.call, 'a tool')}")
    deeds |= {f"begin with {order[0]}", f"call {order[-1]} last"} if order else {"call no tool"}
    deeds |= {"make the same kind of call again and again"} if _stuck(order) else set()
    if not any(node.message.text.strip() for node in trace.nodes if node.message.role is Role.ASSISTANT):
        deeds.add("say nothing")
    return Doing(trace.task, trace.rollout, frozenset(deeds), trace.num_turns)


def _stuck(order: Sequence[str]) -> bool:
    return any(len(set(order[start : start + 5])) == 1 for start in range(len(order) - 4))


def contrast(these: Sequence[Doing], passing: Sequence[Doing]) -> Contrast | None:
    """The clearest difference; None if there is too little of both in the same tasks, or nothing clear."""
    shared = {each.task for each in these} & {each.task for each in passing}
    ours = [each for each in these if each.task in shared]
    theirs = [each for each in passing if each.task in shared]
    if min(len(ours), len(theirs)) < _FEWEST:
        return None
    return _by_deeds(ours, theirs, len(shared)) or _by_length(ours, theirs, len(shared))


def _by_deeds(ours: Sequence[Doing], theirs: Sequence[Doing], tasks: int) -> Contrast | None:
    deeds = sorted({deed for each in (*ours, *theirs) for deed in each.deeds})
    counts = {deed: (_with(theirs, deed), _with(ours, deed)) for deed in deeds}
    p_values = holm([_either_side(*counts[deed], len(theirs), len(ours)) for deed in deeds])
    found = [(deed, p) for deed, p in zip(deeds, p_values, strict=True) if p < ALPHA]
    if not found:
        return None
    deed, p = max(found, key=lambda pair: (abs(counts[pair[0]][0] / len(theirs) - counts[pair[0]][1] / len(ours)), pair[0]))
    passing_with, these_with = counts[deed]
    if passing_with / len(theirs) >= these_with / len(ours):
        said = f"{passing_with} of {len(theirs)} passes of the same tasks {deed}; {these_with} of {len(ours)} of these do"
    else:
        said = f"{these_with} of {len(ours)} of these {deed}; {passing_with} of {len(theirs)} passes of the same tasks do"
    return Contrast(
        said=said,
        deed=deed,
        passing=len(theirs),
        passing_with=passing_with,
        these=len(ours),
        these_with=these_with,
        p_value=p,
        tasks=tasks,
        pair=_pair(ours, theirs, deed),
    )


def _by_length(ours: Sequence[Doing], theirs: Sequence[Doing], tasks: int) -> Contrast | None:
    found = rank_difference([each.turns for each in ours], [each.turns for each in theirs])
    if found.p_value >= ALPHA or max(found.size, 1 - found.size) < _SEPARATE:
        return None
    mine, others = (quantile(sorted(each.turns for each in group), 0.5) for group in (ours, theirs))
    return Contrast(
        said=f"these take {mine:g} turns, passes of the same tasks {others:g}",
        passing=len(theirs),
        passing_with=0,
        these=len(ours),
        these_with=0,
        p_value=found.p_value,
        tasks=tasks,
        pair=_pair(ours, theirs, ""),
    )


def _with(group: Sequence[Doing], deed: str) -> int:
    return sum(deed in each.deeds for each in group)


def _either_side(passing_with: int, these_with: int, passing: int, these: int) -> float:
    more = fisher(passing_with, passing, these_with, these)
    fewer = fisher(these_with, these, passing_with, passing)
    return min(1.0, 2 * min(more, fewer))


def _pair(ours: Sequence[Doing], theirs: Sequence[Doing], deed: str) -> tuple[str, str]:
    """Two of one task that differ in the deed, if there are such; any two of one task otherwise."""
    by_task = {each.task: each for each in reversed(theirs)}
    differing = {(each.task, deed in each.deeds): each for each in reversed(theirs)}
    for each in ours:
        other = differing.get((each.task, deed not in each.deeds))
        if other is not None:
            return f"{other.task}/{other.rollout}", f"{each.task}/{each.rollout}"
    other = by_task[ours[0].task]
    return f"{other.task}/{other.rollout}", f"{ours[0].task}/{ours[0].rollout}"
