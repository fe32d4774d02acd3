"""Climbing away from golden: edits that cost nothing are added up, and what is found is made small again."""

from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

_Part = TypeVar("_Part")

Holds = Callable[[Sequence[Sequence[_Part]]], Awaitable[list[bool]]]
"""Tries several sets of parts at once: which of them still show what was found."""


async def largest_free(parts: Sequence[_Part], free: Holds[_Part], *, rounds: int) -> list[_Part]:
    """A large set of parts that together are free, where each is alone: halves are tried, then joined again."""
    groups: list[list[_Part]] = [list(parts)] if parts else []
    kept: list[_Part] = []
    for _ in range(rounds):
        if not groups:
            break
        results = await free([[*kept, *group] for group in groups])
        best = next((group for group, is_free in zip(groups, results, strict=True) if is_free), None)
        if best is not None:
            kept += best
            groups = [group for group in groups if group is not best]
        else:
            groups = [half for group in groups for half in _halves(group)]
    return kept


async def smallest(parts: Sequence[_Part], holds: Holds[_Part], *, rounds: int) -> list[_Part]:
    """A small subset that still shows it, by removing ever smaller pieces (delta debugging). The whole set does show it."""
    kept, pieces = list(parts), 2
    for _ in range(rounds):
        if len(kept) < 2:
            break
        size = max(1, -(-len(kept) // pieces))
        without = [[*kept[:at], *kept[at + size :]] for at in range(0, len(kept), size)]
        results = await holds(without)
        smaller = next((rest for rest, shows in zip(without, results, strict=True) if shows), None)
        if smaller is not None:
            kept, pieces = smaller, max(2, pieces - 1)
        elif size == 1:
            break
        else:
            pieces = min(len(kept), pieces * 2)
    return kept


def _halves(group: list[_Part]) -> list[list[_Part]]:
    middle = len(group) // 2
    return [group[:middle], group[middle:]] if middle else []
