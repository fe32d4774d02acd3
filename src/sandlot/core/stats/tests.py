"""Statistical tests with effect sizes, and corrections for multiple testing, with nothing but `math`.

With much data every difference is significant, with little data none is. So each test returns how *large* the difference is
beside its p-value; a finding needs both. `ks` compares numbers, `chi_square` counts of categories, `fisher` shares,
`jensen_shannon` distributions of words; `holm` and `benjamini_hochberg` correct for many tests.

`mix_difference`, `distribution_gap` and `rank_difference` compare two groups that may be empty. Their p-values assume independent
values. Rollouts of one task are alike, so the p-values are too small there; judge by the size.
"""

import math
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

_FEW_EXPECTED = 5.0
"""Categories expected less often than this in either group are counted together: the chi-square test needs it."""
_EXACT_PATHS = 40_000
"""Up to this product of the two sizes, the Kolmogorov-Smirnov p-value is exact."""


@dataclass(frozen=True, slots=True)
class TestResult:
    """An effect size, and the chance of one at least as large if both sides had the same distribution (the p-value)."""

    effect: float
    p: float


# -- numbers -----------------------------------------------------------------------------------------------------------


def ks(left: Sequence[float], right: Sequence[float]) -> TestResult:
    """Kolmogorov-Smirnov test: the largest gap between two distribution functions, 0 to 1. With ties the p-value is too large."""
    if not left or not right:
        raise ValueError(f"{len(left)} and {len(right)} values; give at least one on both sides")
    if any(math.isnan(value) for value in (*left, *right)):
        raise ValueError("a value is NaN; leave it out, and compare how often values are missing")
    one, other = sorted(left), sorted(right)
    n, m = len(one), len(other)
    # in units of 1/(n m), so that equal gaps are exactly equal
    gap = max(abs(bisect_right(one, x) * m - bisect_right(other, x) * n) for x in {*one, *other})
    p = _exact_gap(gap, n, m) if n * m <= _EXACT_PATHS else kolmogorov_tail(gap / math.sqrt(n * m * (n + m)))
    return TestResult(gap / (n * m), p)


def _exact_gap(gap: int, n: int, m: int) -> float:
    """The share of orderings of n and m values whose gap is at least this: lattice paths that leave a strip.

    `stay[j]` is the chance that a random path to (i, j) has stayed inside.
    """
    if gap == 0:
        return 1.0
    stay = [0.0] * (m + 1)
    for i in range(n + 1):
        for j in range(m + 1):
            if abs(i * m - j * n) >= gap:
                stay[j] = 0.0
            elif i or j:
                stay[j] = (stay[j] * i + (stay[j - 1] * j if j else 0.0)) / (i + j)
            else:
                stay[j] = 1.0
    return max(0.0, 1 - stay[m])


def kolmogorov_tail(x: float) -> float:
    """The chance that a Brownian bridge reaches `x`."""
    if x <= 0:
        return 1.0
    if x < 1.18:  # each series converges fast on its own side
        terms = (math.exp(-((2 * k - 1) ** 2) * math.pi**2 / (8 * x * x)) for k in range(1, 8))
        return max(0.0, min(1.0, 1 - math.sqrt(2 * math.pi) / x * math.fsum(terms)))
    return min(1.0, 2 * math.fsum((-1) ** (k - 1) * math.exp(-2 * k * k * x * x) for k in range(1, 8)))


# -- categories --------------------------------------------------------------------------------------------------------


def chi_square(table: Sequence[Sequence[int]]) -> TestResult:
    """Chi-square test of independence of a table of counts, empty rows and columns left out. The effect is Cramer's V, 0 to 1."""
    if len({len(row) for row in table}) > 1 or any(count < 0 for row in table for count in row):
        raise ValueError("give rows of equal length, with counts from 0 up")
    rows = [row for row in table if any(row)]
    columns = [column for column in zip(*rows, strict=True) if any(column)]
    if len(rows) < 2 or len(columns) < 2:
        return TestResult(0.0, 1.0)
    down, across = [sum(row) for row in zip(*columns, strict=True)], [sum(column) for column in columns]
    total = sum(across)
    statistic = math.fsum(
        (column[i] - down[i] * across[j] / total) ** 2 / (down[i] * across[j] / total)
        for j, column in enumerate(columns)
        for i in range(len(down))
    )
    smaller = min(len(down), len(across)) - 1
    effect = math.sqrt(min(1.0, statistic / (total * smaller)))
    return TestResult(effect, chi_square_tail(statistic, (len(down) - 1) * (len(across) - 1)))


def chi_square_tail(x: float, degrees: int) -> float:
    """The chance that a chi-square variable with `degrees` degrees of freedom is above `x`."""
    if degrees < 1:
        raise ValueError(f"{degrees} degrees of freedom; give at least one")
    return _gamma_tail(degrees / 2, x / 2)


def _gamma_tail(shape: float, x: float) -> float:
    """The regularised upper incomplete gamma function: a series left of the mean, a continued fraction right of it."""
    if x <= 0:
        return 1.0
    scale = math.exp(shape * math.log(x) - x - math.lgamma(shape))
    if x < shape + 1:
        term = total = 1 / shape
        step = shape
        while term > total * 1e-16:
            step += 1
            term *= x / step
            total += term
        return max(0.0, 1 - scale * total)
    tiny = 1e-300
    b = x + 1 - shape
    c, d = 1 / tiny, 1 / b
    result = d
    for i in range(1, 100_000):
        a = -i * (i - shape)
        b += 2
        d = 1 / (a * d + b or tiny)
        c = b + a / c or tiny
        result *= c * d
        if abs(c * d - 1) < 1e-15:
            return min(1.0, scale * result)
    raise ArithmeticError(f"the gamma function of {shape} at {x} did not converge")


# -- shares ------------------------------------------------------------------------------------------------------------


def fisher(k: int, n: int, other_k: int, other_n: int, *, greater: bool = False) -> TestResult:
    """Fisher's exact test of two shares k/n: exact for the smallest counts. The effect is the difference of the shares.

    Two-sided. With `greater`, one-sided: the chance of k or more in the first group if both groups had the same share.
    """
    if not (0 <= k <= n and 0 <= other_k <= other_n):
        raise ValueError(f"{k} of {n} and {other_k} of {other_n} are not shares; give 0 <= k <= n")
    if not n or not other_n:
        return TestResult(0.0, 1.0)
    hits, total = k + other_k, n + other_n
    every = _log_choose(total, n)

    def log_chance(count: int) -> float:
        return _log_choose(hits, count) + _log_choose(total - hits, n - count) - every

    seen = log_chance(k) + 1e-7  # a tie counts, whatever the rounding
    counts = range(max(0, n - (total - hits)), min(n, hits) + 1)
    chances = ((count, log_chance(count)) for count in counts)
    tail = (chance for count, chance in chances if (count >= k if greater else chance <= seen))
    return TestResult(abs(k / n - other_k / other_n), min(1.0, math.fsum(map(math.exp, tail))))


def _log_choose(n: int, k: int) -> float:
    """The logarithm of the binomial coefficient."""
    return math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1)


# -- distributions -----------------------------------------------------------------------------------------------------


def jensen_shannon(left: Mapping[str, int], right: Mapping[str, int]) -> float:
    """The Jensen-Shannon divergence of two distributions of counts, in bits: 0 if equal, 1 with nothing in common."""
    n, m = sum(left.values()), sum(right.values())
    if not n or not m:
        raise ValueError(f"{n} and {m} counts; give at least one on both sides")
    shares = ((left.get(word, 0) / n, right.get(word, 0) / m) for word in {*left, *right})
    # fsum: the result does not depend on the order of the set
    return min(1.0, max(0.0, math.fsum(_towards(p, (p + q) / 2) + _towards(q, (p + q) / 2) for p, q in shares) / 2))


def _towards(p: float, middle: float) -> float:
    return p * math.log2(p / middle) if p else 0.0


# -- two groups of rollouts ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Difference:
    """The size of the difference between two groups, and its p-value."""

    size: float
    p_value: float
    first: int
    second: int
    """Number of values of each group."""


def mix_difference(first: Mapping[str, int], second: Mapping[str, int]) -> Difference:
    """Compare counts by category. The size is Cramer's V: 0 for the same mix, 1 for nothing in common."""
    n, m = sum(first.values()), sum(second.values())
    pairs = _pooled(first, second) if n and m else []
    found = chi_square(pairs)
    return Difference(found.effect, found.p, n, m)


def distribution_gap(first: Iterable[float], second: Iterable[float]) -> Difference:
    """Compare values by the Kolmogorov-Smirnov test. The size is the largest gap between the distributions, 0 to 1."""
    ours, theirs = list(first), list(second)
    if not ours or not theirs:
        return Difference(0.0, 1.0, len(ours), len(theirs))
    found = ks(ours, theirs)
    return Difference(found.effect, found.p, len(ours), len(theirs))


def rank_difference(first: Iterable[float], second: Iterable[float]) -> Difference:
    """Compare ranks by the Mann-Whitney test. The size is the AUC: the chance that a value of the first group is the larger.

    Ties count half. The p-value is two-sided, from the normal approximation corrected for ties.
    """
    ours, theirs = sorted(first), sorted(second)
    n, m = len(ours), len(theirs)
    if not n or not m:
        return Difference(0.5, 1.0, n, m)
    above = math.fsum((bisect_left(theirs, value) + bisect_right(theirs, value)) / 2 for value in ours)
    total = n + m
    ties = sum(count**3 - count for count in Counter([*ours, *theirs]).values())
    variance = n * m / 12 * (total + 1 - ties / (total * (total - 1)))
    if variance <= 0:  # all values are equal
        return Difference(0.5, 1.0, n, m)
    z = max(0.0, abs(above - n * m / 2) - 0.5) / math.sqrt(variance)
    return Difference(above / (n * m), math.erfc(z / math.sqrt(2)), n, m)


def _pooled(first: Mapping[str, int], second: Mapping[str, int]) -> list[tuple[int, int]]:
    """Both counts of every category, with rare categories merged into one."""
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


# -- many tests --------------------------------------------------------------------------------------------------------


def holm(ps: Sequence[float]) -> list[float]:
    """Holm's correction: adjusted p-values that control the chance of even one false positive."""
    adjusted = [0.0] * len(ps)
    so_far = 0.0
    for place, at in enumerate(sorted(range(len(ps)), key=ps.__getitem__)):
        so_far = max(so_far, min(1.0, (len(ps) - place) * ps[at]))
        adjusted[at] = so_far
    return adjusted


def benjamini_hochberg(ps: Sequence[float]) -> list[float]:
    """The Benjamini-Hochberg correction: adjusted p-values that control the share of false positives."""
    adjusted = [0.0] * len(ps)
    so_far = 1.0
    for place, at in sorted(enumerate(sorted(range(len(ps)), key=ps.__getitem__), 1), reverse=True):
        so_far = min(so_far, len(ps) * ps[at] / place)
        adjusted[at] = so_far
    return adjusted
