"""What passing rollouts do that failing rollouts of the same tasks do not.

One trace alone seldom shows why it failed; a comparison does. A rollout is a set of *deeds*: tools called, errors received, how
it began and ended. Over the tasks with both kinds, the contrast is the deed whose share differs most, if Fisher's test with
Holm's correction finds it significant; else the number of turns.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from sandlot.core.stats.intervals import quantile
from sandlot.core.stats.tests import fisher, holm, rank_difference
from sandlot.core.text import one_line
from sandlot.core.trace import Trace
from sandlot.core.types import Role

ALPHA = 0.05
_FEWEST = 3
"""Minimum rollouts of each kind, in tasks that have both."""
_SEPARATE = 0.8
"""Probability that a rollout of one kind is longer than one of the other, for lengths to be reported."""
_NAME_CHARS = 60


@dataclass(frozen=True, slots=True)
class Doing:
    """The deeds of one rollout."""

    task: str
    rollout: int
    deeds: frozenset[str]
    turns: int


class Contrast(msgspec.Struct, frozen=True, kw_only=True):
    """A difference between passing rollouts and those of a cluster, over tasks that have both."""

    said: str
    deed: str = ""
    passing: int
    passing_with: int
    these: int
    these_with: int
    p_value: float
    tasks: int
    pair: tuple[str, str]
    """A passing rollout and one of the cluster, of the same task, that show it: `TASK/ROLLOUT` each."""


def doing_of(trace: Trace) -> Doing:
    """The deeds of a trace."""
    deeds: set[str] = set()
    order: list[str] = []
    names: dict[str, str] = {}
    for node in trace.nodes:
        if node.is_turn:
            for call in node.message.calls:
                name = f"`{one_line(call.name, _NAME_CHARS)}`"
                names[call.id] = name
                order.append(name)
                deeds.add(f"call {name}" if call.malformed is None else "write calls that cannot be parsed")
        for result in node.message.results:
            if result.error:
                deeds.add(f"get an error from {names.get(result.call, 'a tool')}")
    deeds |= {f"begin with {order[0]}", f"call {order[-1]} last"} if order else {"call no tool"}
    deeds |= {"repeat the same kind of call"} if _stuck(order) else set()
    if not any(node.message.text.strip() for node in trace.nodes if node.message.role is Role.ASSISTANT):
        deeds.add("say nothing")
    return Doing(trace.task, trace.rollout, frozenset(deeds), trace.num_turns)


def _stuck(order: Sequence[str]) -> bool:
    return any(len(set(order[start : start + 5])) == 1 for start in range(len(order) - 4))


def contrast(these: Sequence[Doing], passing: Sequence[Doing]) -> Contrast | None:
    """The clearest difference; None if there are too few rollouts of the same tasks, or none is significant."""
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
        said = f"{passing_with} of {len(theirs)} passing rollouts of the same tasks {deed}; {these_with} of these {len(ours)} do"
    else:
        said = f"{these_with} of these {len(ours)} {deed}; {passing_with} of {len(theirs)} passing rollouts of the same tasks do"
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
        said=f"these take {mine:g} turns, passing rollouts of the same tasks {others:g}",
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
    more = fisher(passing_with, passing, these_with, these, greater=True).p
    fewer = fisher(these_with, these, passing_with, passing, greater=True).p
    return min(1.0, 2 * min(more, fewer))


def _pair(ours: Sequence[Doing], theirs: Sequence[Doing], deed: str) -> tuple[str, str]:
    """Two rollouts of one task that differ in the deed, if there are any; else any two of one task."""
    by_task = {each.task: each for each in reversed(theirs)}
    differing = {(each.task, deed in each.deeds): each for each in reversed(theirs)}
    for each in ours:
        other = differing.get((each.task, deed not in each.deeds))
        if other is not None:
            return f"{other.task}/{other.rollout}", f"{each.task}/{each.rollout}"
    other = by_task[ours[0].task]
    return f"{other.task}/{other.rollout}", f"{ours[0].task}/{ours[0].rollout}"
