"""When what is to be said next does not extend what was sampled: how far it drifted, and what that means.

A conversation whose tokens extend the held ones is one row of training. When they do not (a history was compacted, a turn was
replaced, a foreign agent rewrote its past), the sampled tokens stay where they are, in their own branch, and the new prompt
becomes a sibling of what it departs from. Nothing is overwritten, masked out or dropped in silence: the drift is an event.
"""

from collections.abc import Sequence
from enum import StrEnum

import msgspec

from sandlot.core.tokens import has_exact_tokens, held_tokens, path_indices, unpacked_ids
from sandlot.core.trace import Event, Node, Trace

_REALIGN_AT_MOST = 1024
"""Tokens of the last turn that may differ before it counts as another conversation."""


class DriftKind(StrEnum):
    """How a prompt stands to the tokens held."""

    CLEAN = "clean"  # it extends them: the conversation goes on
    REALIGN = "realign"  # it differs inside the last turn, a little: spelled otherwise, not another conversation
    FORK = "fork"  # it is another conversation from some point on


class Drift(msgspec.Struct, frozen=True, kw_only=True):
    """A classified prompt, in tokens."""

    kind: DriftKind
    held: int
    common: int
    """How many agree from the beginning."""
    sampled_lost: int
    """Sampled tokens among the held that the prompt no longer holds. They stay trained in their own branch."""


def classify(
    held_ids: Sequence[int], incoming: Sequence[int], spans: Sequence[tuple[int, int]], *, realign_at_most: int = _REALIGN_AT_MOST
) -> Drift:
    """Compare a prompt with the tokens held; `spans` says where in them the sampled turns lie."""
    common = common_prefix(held_ids, incoming)
    lost = sum(max(0, end - max(begin, common)) for begin, end in spans)
    if common == len(held_ids):
        kind = DriftKind.CLEAN
    elif spans and common >= spans[-1][0] and len(held_ids) - common <= realign_at_most:
        kind = DriftKind.REALIGN
    else:
        kind = DriftKind.FORK
    return Drift(kind=kind, held=len(held_ids), common=common, sampled_lost=lost)


def common_prefix(one: Sequence[int], other: Sequence[int]) -> int:
    """How many tokens two sequences begin with alike."""
    return next((at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))


def drift_event(drift: Drift, turn: int, cause: str) -> Event:
    """The drift as it is written down."""
    return Event(kind="drift", turn=turn, detail={"cause": cause, **msgspec.to_builtins(drift)})


class Branch(msgspec.Struct, frozen=True):
    """Where a prompt that departs from the tokens held can go on."""

    leaf: int
    ids: list[int]
    """What the branch still holds: a prefix of the prompt."""


def branch_off(trace: Trace, leaf: int, incoming: Sequence[int]) -> Branch:
    """Append copies of the messages from the first turn the prompt does not hold, as siblings nobody sampled.

    The sampled nodes stay as they are; below the copies, contexts and tokens joined are the prompt again.
    """
    path = path_indices(trace, leaf)
    ids: list[int] = []
    for depth, index in enumerate(path):
        node = trace.nodes[index]
        if not node.sampled or node.tokens is None:
            continue
        longer = [*ids, *unpacked_ids(node.context), *unpacked_ids(node.tokens.ids)]
        if list(incoming[: len(longer)]) != longer:
            parent = node.parent
            for copied in path[depth:]:
                parent = trace.append(Node(message=trace.nodes[copied].message, parent=parent))
            return Branch(parent if parent is not None else leaf, ids)
        ids = longer
    return Branch(leaf, ids)


def drift_from_newest(trace: Trace, leaf: int) -> Drift | None:
    """The drift of taking a turn where the newest exact turn is not above: a branch, a replaced turn, a compacted history."""
    newest = next((index for index in reversed(range(len(trace.nodes))) if has_exact_tokens(trace.nodes[index])), None)
    if newest is None or newest in path_indices(trace, leaf):
        return None
    theirs, ours = held_tokens(trace, newest), held_tokens(trace, leaf)
    return classify(theirs.ids, ours.ids, theirs.spans, realign_at_most=0)
