"""Confidence intervals and paired tests, with nothing but `math`.

Rollouts of one task are alike, so means and differences are *clustered* by task: more rollouts of the same task say more about
that task, not about others. With one task, or if all tasks have the same result, the interval is wide and its `note` says why.
All random draws are seeded.

Shares (`wilson`), Beta distributions (`beta_cdf`, `beta_quantile`), means (`clustered_mean`, `clustered_share`),
comparisons (`sign_flip`, `mcnemar`), and `pass_at_k`, `quantile`.
"""

import math
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from random import Random

CONFIDENCE = 0.95
_UNBOUNDED = (-math.inf, math.inf)

_EXACT_FLIPS = 14
"""Up to this many non-zero differences all sign patterns are tried."""
_SAMPLED_FLIPS = 9_999
_MAX_SAMPLED_SIZES = 1_000
"""Above this many different sizes the normal approximation is used."""


@dataclass(frozen=True, slots=True)
class Interval:
    """An estimate with its confidence interval. `value` is None without data."""

    value: float | None
    low: float
    high: float
    note: str = ""
    """Why the interval is wide, if it is."""


# -- quantiles and distributions ---------------------------------------------------------------------------------------


def quantile(ordered: Sequence[float], share: float) -> float:
    """The value below which `share` of sorted values lie, between neighbours by proportion."""
    if not ordered:
        raise ValueError("no values; give at least one")
    if not 0 <= share <= 1:
        raise ValueError(f"share is {share}; give a number from 0 to 1")
    place = share * (len(ordered) - 1)
    below = math.floor(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (place - below)


def beta_cdf(x: float, a: float, b: float) -> float:
    """The share of a Beta(a, b) distribution below `x`: the regularised incomplete beta function."""
    if a <= 0 or b <= 0:
        raise ValueError(f"Beta({a}, {b}) does not exist; give positive numbers")
    if x <= 0:
        return 0.0
    if x >= 1:
        return 1.0
    scale = math.exp(math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log1p(-x))
    if x < (a + 1) / (a + b + 2):  # the continued fraction converges fast only on this side of the mean
        return min(1.0, scale * _beta_fraction(x, a, b) / a)
    return max(0.0, 1 - scale * _beta_fraction(1 - x, b, a) / b)


@lru_cache(maxsize=4096)
def beta_quantile(share: float, a: float, b: float) -> float:
    """The value below which `share` of Beta(a, b) lies."""
    return _solve(lambda x: beta_cdf(x, a, b), share, 0.0, 1.0)


def _beta_fraction(x: float, a: float, b: float) -> float:
    """The continued fraction of the incomplete beta function, by Lentz's method."""
    tiny = 1e-300
    c, d = 1.0, 1 / (1 - (a + b) * x / (a + 1) or tiny)
    result = d
    for m in range(1, 100_000):
        even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        for term in (even, odd):
            d = 1 / (1 + term * d or tiny)
            c = 1 + term / c or tiny
            result *= c * d
        if abs(c * d - 1) < 1e-15:
            return result
    raise ArithmeticError(f"Beta({a}, {b}) at {x} did not converge")


def _solve(rising: Callable[[float], float], target: float, low: float, high: float) -> float:
    """Where an increasing function reaches the target, by bisection to the last float."""
    while low < (middle := (low + high) / 2) < high:
        if rising(middle) < target:
            low = middle
        else:
            high = middle
    return high


@lru_cache(maxsize=64)
def normal_width(confidence: float) -> float:
    """Half the width, in standard deviations, that holds this share of a normal distribution: 1.96 for 95 %."""
    return _solve(lambda z: math.erf(z / math.sqrt(2)), confidence, 0.0, 40.0)


@lru_cache(maxsize=1024)
def t_width(degrees: int, confidence: float) -> float:
    """The same for Student's t: 12.7 for 95 % with one degree of freedom, about 1.96 with many."""
    if degrees > 100_000:
        return normal_width(confidence)
    share = _solve(lambda y: beta_cdf(y, 0.5, degrees / 2), confidence, 0.0, 1.0)  # of t^2 / (degrees + t^2)
    return math.sqrt(degrees * share / (1 - share))


# -- shares ------------------------------------------------------------------------------------------------------------


def wilson(k: float, n: float) -> Interval:
    """Wilson's interval for a share k of n: good for small n, and within 0 to 1."""
    if not 0 <= k <= n:
        raise ValueError(f"{k} of {n} is not a share; give 0 <= k <= n")
    return _wilson(k / n, n, normal_width(CONFIDENCE)) if n else Interval(None, 0.0, 1.0, "no data")


def _wilson(share: float, n: float, z: float) -> Interval:
    centre = (share + z * z / (2 * n)) / (1 + z * z / n)
    half = z * math.sqrt(share * (1 - share) / n + z * z / (4 * n * n)) / (1 + z * z / n)
    return Interval(share, max(0.0, min(share, centre - half)), min(1.0, max(share, centre + half)))


def pass_at_k(n: int, c: int, k: int) -> float:
    """The chance that at least one of k rollouts passes, from c passes of n. Unbiased, unlike 1 - (1 - c/n)^k."""
    if not 0 <= c <= n or not 1 <= k <= n:
        raise ValueError(f"pass@{k} from {c} of {n}: needs 0 <= c <= n and 1 <= k <= n")
    none = 1.0
    for i in range(min(k, n - c + 1)):
        none *= (n - c - i) / (n - i)
    return 1 - none


# -- means, clustered by task ------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Sums:
    """The count and total of one cluster."""

    count: int
    total: float


@dataclass(frozen=True, slots=True)
class Spread:
    """A mean and its standard error over clusters; the error is None for one cluster."""

    mean: float
    error: float | None
    clusters: int
    count: int


def spread_of(clusters: Collection[Sums]) -> Spread | None:
    """The mean of all values with its cluster-robust standard error; None without values."""
    full = [sums for sums in clusters if sums.count]
    count = sum(sums.count for sums in full)
    if not count:
        return None
    mean = math.fsum(sums.total for sums in full) / count
    groups = len(full)
    if groups == 1:
        return Spread(mean, None, 1, count)
    squares = math.fsum((sums.total - sums.count * mean) ** 2 for sums in full)
    return Spread(mean, math.sqrt(squares * groups / (groups - 1)) / count, groups, count)


def clustered_mean(clusters: Collection[Sums], *, bounds: tuple[float, float] = _UNBOUNDED) -> Interval:
    """A mean with a t interval over clusters, within `bounds`, the possible range of the values."""
    low, high = bounds
    spread = spread_of(clusters)
    if spread is None:
        return Interval(None, low, high, "no data")
    mean = spread.mean
    if spread.error is None:
        return Interval(mean, low, high, "one task gives no spread over tasks")
    if spread.error <= 1e-12 * max(1.0, abs(mean)):
        # All clusters agree, so there is no spread. An upper bound for the share of clusters that would differ:
        unseen = 1 - ((1 - CONFIDENCE) / 2) ** (1 / spread.clusters)
        note = f"all {spread.clusters} tasks have the same result; the width allows for other tasks"
        return Interval(mean, min(mean, mean - unseen * (mean - low)), max(mean, mean + unseen * (high - mean)), note)
    half = t_width(spread.clusters - 1, CONFIDENCE) * spread.error
    return Interval(mean, max(low, mean - half), min(high, mean + half))


def clustered_share(clusters: Collection[Sums]) -> Interval:
    """A share with clustered counts: Wilson's interval for the effective number of independent counts."""
    spread = spread_of(clusters)
    if spread is None:
        return Interval(None, 0.0, 1.0, "no data")
    share = spread.mean
    if spread.error is None:
        return Interval(share, 0.0, 1.0, "one task gives no spread over tasks")
    z = normal_width(CONFIDENCE)
    if share in {0.0, 1.0}:
        # There is no spread, so each task counts once, however many rollouts it had.
        return replace(_wilson(share, spread.clusters, z), note=f"all {spread.clusters} tasks have the same result")
    stretch = t_width(spread.clusters - 1, CONFIDENCE) / z  # with few clusters the spread itself is uncertain
    worth = share * (1 - share) / max(spread.error * stretch, 1e-9) ** 2
    return _wilson(share, min(worth, spread.count), z)


# -- comparisons -------------------------------------------------------------------------------------------------------


def sign_flip(differences: Sequence[float]) -> float:
    """Sign-flip test: the chance of a mean difference this large if each difference could as well have the other sign.

    Exact for few differences, by seeded draws for more, by the normal approximation for very many different sizes.
    """
    sizes = [abs(value) for value in differences if value]
    seen = abs(math.fsum(differences)) * (1 - 1e-12)  # a tie counts, whatever the rounding
    if not sizes:
        return 1.0
    if len(sizes) <= _EXACT_FLIPS:
        return _exact_flips(sizes, seen)
    counts = Counter(sizes)
    if len(counts) > _MAX_SAMPLED_SIZES:
        return math.erfc(seen / math.sqrt(2 * math.fsum(size * size for size in sizes)))
    rng = Random(0)  # noqa: S311 - statistics, not secrets; the same answer every time
    hits = 0
    for _ in range(_SAMPLED_FLIPS):
        # of `n` equal sizes only the number of plus signs matters
        drawn = sum(size * (2 * rng.getrandbits(n).bit_count() - n) for size, n in counts.items())
        hits += abs(drawn) >= seen
    return (hits + 1) / (_SAMPLED_FLIPS + 1)


def _exact_flips(sizes: Sequence[float], seen: float) -> float:
    sums = [sizes[0]]  # the first sign is fixed: a pattern and its mirror are equally extreme
    for size in sizes[1:]:
        sums = [total + signed for total in sums for signed in (size, -size)]
    return sum(abs(total) >= seen for total in sums) / len(sums)


def mcnemar(only_first: int, only_second: int) -> float:
    """McNemar's exact test: the chance of so uneven a split of the pairs in which only one of the two passed."""
    n, fewer = only_first + only_second, min(only_first, only_second)
    if fewer < 0:
        raise ValueError(f"counts {only_first} and {only_second}; give numbers from 0 up")
    return 1.0 if n == 0 else min(1.0, 2 * beta_cdf(0.5, n - fewer, fewer + 1))
