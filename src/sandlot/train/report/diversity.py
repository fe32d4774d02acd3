"""How differently the members of a group act: pure functions over traces.

Training may narrow a policy: its rollouts of one task become the same, and there is nothing left to compare. A rollout's actions
are its tool calls, and its text in turns without a call; each is compared as a whole. Figures are means over groups with at least
two scored members; scores play no part.
"""

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import combinations

import msgspec

from sandlot.core.trace import Node, Scored, Trace
from sandlot.observe.training_records import Diversity

MEMBERS, ACTIONS = 8, 32
"""Maximum members of a group and first actions of a rollout to compare: all pairs of long rollouts take seconds."""

Actions = tuple[str, ...]


def diversity_of(groups: Iterable[Sequence[Trace]]) -> Diversity | None:
    """The diversity of the scored traces of a step's groups; None if no group has two."""
    scored = [[trace for trace in members if isinstance(trace.outcome, Scored)] for members in groups]
    compared = [members for members in scored if len(members) > 1]
    if not compared:
        return None
    acted = [[actions_of(trace) for trace in members] for members in compared]
    first = [[call for trace in members if (call := first_call(trace)) is not None] for members in compared]
    return Diversity(
        distinct=_mean(len(set(members)) / len(members) for members in acted),
        distance=_mean(mean_distance(members) for members in acted),
        first_entropy=_mean(entropy(calls) for calls in first),
        groups=len(compared),
    )


def actions_of(trace: Trace) -> Actions:
    """The actions of a rollout, turn by turn."""
    return tuple(action for node in trace.turns() for action in _acted(node))


def first_call(trace: Trace) -> str | None:
    """The first tool call with its arguments."""
    return next((_called(node)[0] for node in trace.turns() if node.message.calls), None)


def _acted(node: Node) -> Actions:
    return _called(node) or (node.message.text.strip(),)


def _called(node: Node) -> Actions:
    return tuple(
        f"{call.name} {call.malformed or msgspec.json.encode(call.arguments, order='sorted').decode()}"
        for call in node.message.calls
    )


def mean_distance(members: Sequence[Actions]) -> float:
    """Over all pairs of the first members."""
    cut = [actions[:ACTIONS] for actions in members[:MEMBERS]]
    return _mean(distance(one, other) for one, other in combinations(cut, 2))


def distance(one: Actions, other: Actions) -> float:
    """Actions to insert, drop or replace to come from one sequence to the other, as a share of the longer one."""
    if one == other:
        return 0.0
    row = list(range(len(other) + 1))
    for index, action in enumerate(one, 1):
        left_above, row[0] = row[0], index
        for place, wanted in enumerate(other, 1):
            left_above, row[place] = row[place], min(row[place] + 1, row[place - 1] + 1, left_above + (action != wanted))
    return row[-1] / max(len(one), len(other))


def entropy(values: Sequence[str]) -> float:
    """Of how often each value comes, in nats."""
    counts = Counter(values)
    return math.fsum(-count / len(values) * math.log(count / len(values)) for count in counts.values()) if counts else 0.0


def _mean(values: Iterable[float]) -> float:
    found = list(values)
    return math.fsum(found) / len(found)
