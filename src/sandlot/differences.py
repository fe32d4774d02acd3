"""Whether two groups differ, how much, and what is left of it when many were compared; with nothing but `math`.

With thousands of values every trifle is significant, so each comparison gives a *size* beside its p-value, and a gate asks for
both: Cramer's V for counts, the largest gap between two distributions (Kolmogorov-Smirnov) for values, the chance that a value of
one group lies above one of the other (AUC) for ranks. p-values take the values for independent ones; where rollouts of one task
resemble each other they are optimistic, and it is the size that holds the gate.

`fisher`, `chi_square`, `distribution_gap`, `ranked`; and for many at once `holm`, `benjamini_hochberg`.
"""

import math
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

FEW_EXPECTED = 5.0
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
    whole = _log_choose(total, all_hits)
    most = min(of, all_hits)
    tail = (_log_choose(of, k) + _log_choose(of_others, all_hits - k) - whole for k in range(hits, most + 1))
    return min(1.0, math.fsum(map(math.exp, tail)))


def chi_square(first: Mapping[str, int], second: Mapping[str, int]) -> Difference:
    """Two groups' counts by category; the size is Cramer's V, from 0 for the same mix to 1 for nothing in common."""
    n, m = sum(first.values()), sum(second.values())
    pairs = _pooled(first, second) if n and m else []
    if len(pairs) < 2:
        return Difference(0.0, 1.0, n, m)
    total = n + m
    statistic = 0.0
    for mine, theirs in pairs:
        both = mine + theirs
        for seen, size in ((mine, n), (theirs, m)):
            expected = both * size / total
            statistic += (seen - expected) ** 2 / expected
    return Difference(math.sqrt(min(1.0, statistic / total)), chi_square_tail(statistic, len(pairs) - 1), n, m)


def distribution_gap(first: Iterable[float], second: Iterable[float]) -> Difference:
    """Two groups of values by Kolmogorov and Smirnov; the size is the largest gap between their distributions, from 0 to 1."""
    ours, theirs = sorted(first), sorted(second)
    n, m = len(ours), len(theirs)
    if not n or not m:
        return Difference(0.0, 1.0, n, m)
    places = sorted({*ours, *theirs})
    gap = max(abs(bisect_right(ours, place) / n - bisect_right(theirs, place) / m) for place in places)
    root = math.sqrt(n * m / (n + m))
    return Difference(gap, _kolmogorov_tail((root + 0.12 + 0.11 / root) * gap), n, m)


def ranked(first: Iterable[float], second: Iterable[float]) -> Difference:
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


# -- many at once ------------------------------------------------------------------------------------------------------


def holm(p_values: Sequence[float]) -> list[float]:
    """The p-values made so large that calling those below alpha true is wrong anywhere with probability alpha at most."""
    adjusted = [0.0] * len(p_values)
    reached = 0.0
    for place, index in enumerate(_rising(p_values)):
        reached = max(reached, min(1.0, (len(p_values) - place) * p_values[index]))
        adjusted[index] = reached
    return adjusted


def benjamini_hochberg(p_values: Sequence[float]) -> list[float]:
    """The p-values made so large that of those called true below q, a share q at most is expected to be wrong."""
    adjusted = [0.0] * len(p_values)
    reached = 1.0
    order = _rising(p_values)
    for place in range(len(order) - 1, -1, -1):
        reached = min(reached, len(p_values) * p_values[order[place]] / (place + 1))
        adjusted[order[place]] = reached
    return adjusted


def _rising(p_values: Sequence[float]) -> list[int]:
    return sorted(range(len(p_values)), key=p_values.__getitem__)


# -- distributions -----------------------------------------------------------------------------------------------------


def chi_square_tail(statistic: float, degrees: int) -> float:
    """The chance of this or more from chi-square with so many degrees of freedom: the upper incomplete gamma function."""
    if statistic <= 0:
        return 1.0
    a, x = degrees / 2, statistic / 2
    scale = math.exp(a * math.log(x) - x - math.lgamma(a))
    if x < a + 1:  # the series converges fast only below the mean, the fraction only above it
        term = total = 1 / a
        step = a
        while term > total * 1e-16:
            step += 1
            term *= x / step
            total += term
        return max(0.0, 1 - scale * total)
    return min(1.0, scale * _gamma_fraction(a, x))


def _gamma_fraction(a: float, x: float) -> float:
    """The continued fraction of the upper incomplete gamma function, by Lentz's method."""
    b = x + 1 - a
    c, d = 1e300, 1 / b
    result = d
    for k in range(1, 100_000):
        factor = -k * (k - a)
        b += 2
        d = 1 / (factor * d + b or 1e-300)
        c = b + factor / c or 1e-300
        result *= c * d
        if abs(c * d - 1) < 1e-15:
            return result
    raise ArithmeticError(f"gamma({a}, {x}) did not converge")


def _kolmogorov_tail(value: float) -> float:
    if value < 0.2:  # the alternating sum is 1 to the last digit here, and slow to say so
        return 1.0
    terms = (math.exp(-2 * (k * value) ** 2) * (1 if k % 2 else -1) for k in range(1, 101))
    return max(0.0, min(1.0, 2 * math.fsum(terms)))


def _log_choose(n: int, k: int) -> float:
    return math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1)


def _pooled(first: Mapping[str, int], second: Mapping[str, int]) -> list[tuple[int, int]]:
    """Both counts of every category, those too rare to stand alone put together."""
    share = min(sum(first.values()), sum(second.values())) / (sum(first.values()) + sum(second.values()))
    pairs: list[tuple[int, int]] = []
    rare = (0, 0)
    for name in sorted({*first, *second}):
        pair = (first.get(name, 0), second.get(name, 0))
        if sum(pair) * share < FEW_EXPECTED:
            rare = (rare[0] + pair[0], rare[1] + pair[1])
        elif sum(pair):
            pairs.append(pair)
    return [*pairs, rare] if sum(rare) else pairs
