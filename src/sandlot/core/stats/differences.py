"""Whether two groups of rollouts differ, and how much: what `comparisons.py` computes, asked of groups that may be empty.

With thousands of values every trifle is significant, so each difference has a *size* beside its p-value, and a gate asks for
both: Cramer's V for counts, the largest gap between two distributions for values, the chance that a value of one group lies above
one of the other (AUC) for ranks. p-values take the values for independent ones; where rollouts of one task resemble each other
they are optimistic, and it is the size that holds the gate.
"""

import math
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from sandlot.core.stats import tests as comparisons
from sandlot.core.stats.tests import log_choose

_FEW_EXPECTED = 5.0
"""Categories expected less often than this in either group are counted together: chi-square needs them so."""


@dataclass(frozen=True, slots=True)
class Difference:
    """How far apart two groups are, and the chance of that if they were alike."""

    size: float
    p_value: float
    first: int
    second: int
    """How many values each group has."""


def fisher(hits: int, of: int, other_hits: int, of_others: int) -> float:
    """Fisher's exact test, one side: the chance of so many hits or more in the first group, if both had the same share."""
    if not (0 <= hits <= of and 0 <= other_hits <= of_others):
        raise ValueError(f"{hits} of {of} and {other_hits} of {of_others} are not shares; give 0 <= k <= n")
    total, all_hits = of + of_others, hits + other_hits
    whole = log_choose(total, all_hits)
    most = min(of, all_hits)
    tail = (log_choose(of, k) + log_choose(of_others, all_hits - k) - whole for k in range(hits, most + 1))
    return min(1.0, math.fsum(map(math.exp, tail)))


def chi_square(first: Mapping[str, int], second: Mapping[str, int]) -> Difference:
    """Two groups' counts by category; the size is Cramer's V, from 0 for the same mix to 1 for nothing in common."""
    n, m = sum(first.values()), sum(second.values())
    pairs = _pooled(first, second) if n and m else []
    found = comparisons.chi_square(pairs)
    return Difference(found.effect, found.p, n, m)


def distribution_gap(first: Iterable[float], second: Iterable[float]) -> Difference:
    """Two groups of values by Kolmogorov and Smirnov; the size is the largest gap between their distributions, from 0 to 1."""
    ours, theirs = list(first), list(second)
    if not ours or not theirs:
        return Difference(0.0, 1.0, len(ours), len(theirs))
    found = comparisons.ks(ours, theirs)
    return Difference(found.effect, found.p, len(ours), len(theirs))


def rank_difference(first: Iterable[float], second: Iterable[float]) -> Difference:
    """The chance that a value of the first group lies above one of the second (the AUC; ties count half), by Mann and Whitney.

    The p-value is two-sided, from the normal limit with ties allowed for.
    """
    ours, theirs = sorted(first), sorted(second)
    n, m = len(ours), len(theirs)
    if not n or not m:
        return Difference(0.5, 1.0, n, m)
    above = math.fsum((bisect_left(theirs, value) + bisect_right(theirs, value)) / 2 for value in ours)
    total = n + m
    ties = sum(count**3 - count for count in Counter([*ours, *theirs]).values())
    variance = n * m / 12 * (total + 1 - ties / (total * (total - 1)))
    if variance <= 0:  # every value is the same one
        return Difference(0.5, 1.0, n, m)
    z = max(0.0, abs(above - n * m / 2) - 0.5) / math.sqrt(variance)
    return Difference(above / (n * m), math.erfc(z / math.sqrt(2)), n, m)


def _pooled(first: Mapping[str, int], second: Mapping[str, int]) -> list[tuple[int, int]]:
    """Both counts of every category, those too rare to stand alone put together."""
    share = min(sum(first.values()), sum(second.values())) / (sum(first.values()) + sum(second.values()))
    pairs: list[tuple[int, int]] = []
    rare = (0, 0)
    for name in sorted({*first, *second}):
        pair = (first.get(name, 0), second.get(name, 0))
        if sum(pair) * share < _FEW_EXPECTED:
            rare = (rare[0] + pair[0], rare[1] + pair[1])
        elif sum(pair):
            pairs.append(pair)
    return [*pairs, rare] if sum(rare) else pairs
