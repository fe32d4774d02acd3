"""Prompts that do not extend the tokens sampled so far (drift), and the branches they start.

A conversation whose tokens extend the earlier ones is one training row. If they do not (a history was compacted, a turn replaced,
a foreign agent rewrote its messages), the sampled tokens stay in their own branch, and the new prompt becomes a sibling. Nothing
is overwritten or dropped, and the drift is recorded as an event.
"""

from collections.abc import Sequence
from enum import StrEnum

import msgspec

from sandlot.core.tokens import has_exact_tokens, held_tokens, path_indices, unpacked_ids
from sandlot.core.trace import Event, Node, Trace

_REALIGN_AT_MOST = 1024
"""Tokens of the last turn that may differ before the prompt counts as another conversation."""


class DriftKind(StrEnum):
    """How a prompt differs from the earlier tokens."""

    CLEAN = "clean"  # it extends them
    REALIGN = "realign"  # it differs slightly in the last turn: the same text, tokenised differently
    FORK = "fork"  # it is another conversation from some point on


class Drift(msgspec.Struct, frozen=True, kw_only=True):
    """The drift of a prompt, in tokens."""

    kind: DriftKind
    held: int
    common: int
    """Length of the common prefix."""
    sampled_lost: int
    """Sampled tokens that the prompt no longer contains. They are still trained on, in their own branch."""


def classify(
    held_ids: Sequence[int], incoming: Sequence[int], spans: Sequence[tuple[int, int]], *, realign_at_most: int = _REALIGN_AT_MOST
) -> Drift:
    """Compare a prompt with the earlier tokens; `spans` are the sampled turns in them."""
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
    """Length of the common prefix."""
    return next((at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))


def drift_event(drift: Drift, turn: int, cause: str) -> Event:
    """The event that records a drift."""
    return Event(kind="drift", turn=turn, detail={"cause": cause, **msgspec.to_builtins(drift)})


class Branch(msgspec.Struct, frozen=True):
    """Where a prompt that differs from the earlier tokens continues."""

    leaf: int
    ids: list[int]
    """The tokens of the branch: a prefix of the prompt."""


def branch_off(trace: Trace, leaf: int, incoming: Sequence[int]) -> Branch:
    """Append copies of the messages, as unsampled siblings, from the first turn that the prompt does not contain.

    The sampled nodes stay as they are. Below the copies, contexts and tokens joined give the prompt again.
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
    """The drift of a turn below `leaf` if the newest exact turn is not above it; None if it is."""
    newest = next((index for index in reversed(range(len(trace.nodes))) if has_exact_tokens(trace.nodes[index])), None)
    if newest is None or newest in path_indices(trace, leaf):
        return None
    theirs, ours = held_tokens(trace, newest), held_tokens(trace, leaf)
    return classify(theirs.ids, ours.ids, theirs.spans, realign_at_most=0)
