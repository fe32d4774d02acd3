"""Advantages of single turns: compared with the turns of other members at the same place, or after the same observation."""

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from sandlot.train.rows import Floats, Group, Member, Row

Baseline = Callable[[Floats], Floats]


def by_place(returns: Sequence[Floats], baseline: Baseline) -> list[Floats]:
    """The return of each turn, compared with the same turn of the other members."""
    keys = [[turn.to_bytes(4, "big") for turn in range(len(each))] for each in returns]
    return _compared(returns, keys, baseline)


def by_observation(group: Group, baseline: Baseline, discount: float = 1.0) -> list[Floats]:
    """GiGPO: the member's reward, discounted by the remaining turns, compared with turns after the same observation.

    An observation is the tokens between the previous turn and this one. A turn whose observation no other turn had is 0.
    """
    keys = [observations(member) for member in group.members]
    returns = [
        np.array([member.reward * discount ** (len(own) - 1 - turn) for turn in range(len(own))], np.float32)
        for member, own in zip(group.members, keys, strict=True)
    ]
    return _compared(returns, keys, baseline)


def observations(member: Member) -> list[bytes]:
    """The observation before each turn of a member, in the order of its turns."""
    found = {turn: seen for row in member.rows for turn, seen in _observed(row)}
    return [found.get(turn, b"") for turn in range(max(found, default=-1) + 1)]


def _observed(row: Row) -> Iterator[tuple[int, bytes]]:
    begins = np.flatnonzero((row.turns >= 0) & (row.turns != np.concatenate(([-1], row.turns[:-1]))))
    spoken = np.flatnonzero(row.turns >= 0)
    for begin in begins:
        before = spoken[spoken < begin]
        start = int(before[-1]) + 1 if len(before) else 0
        yield int(row.turns[begin]), row.ids[start:begin].tobytes()


def _compared(returns: Sequence[Floats], keys: Sequence[Sequence[bytes]], baseline: Baseline) -> list[Floats]:
    """Each return compared with the others of the same key."""
    places: dict[bytes, list[tuple[int, int]]] = {}
    for member, own in enumerate(keys):
        for turn, key in enumerate(own):
            places.setdefault(key, []).append((member, turn))
    advantages = [np.zeros_like(each) for each in returns]
    for alike in places.values():
        gained = baseline(np.array([returns[member][turn] for member, turn in alike], np.float32))
        for (member, turn), advantage in zip(alike, gained, strict=True):
            advantages[member][turn] = advantage
    return advantages
