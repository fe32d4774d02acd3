"""The reliability of verdicts: agreement beyond chance, sensitivity to changes, and means corrected by a few human labels.

Verdicts about one item are alike, so the bootstrap resamples items, not verdicts. A figure that is not defined, such as agreement
beyond chance if all verdicts are equal, is None.

`flip_rate` and `fleiss_kappa` measure one rater asked several times, `cohen_kappa` two raters,
`rank_change` verdicts before and after a change that should not matter, `prediction_powered` means.
"""

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random
from typing import TypeVar

from sandlot.core.stats.intervals import CONFIDENCE, Interval, Sums, clustered_mean, mcnemar, normal_width, quantile, wilson

_RESAMPLES = 1_000
_FEWEST = 5
"""Minimum number of items for a bootstrap."""

Item = TypeVar("Item")


def flip_rate(items: Sequence[Sequence[str]]) -> Interval:
    """The chance that asking again about the same item gives another verdict. Items asked once do not count."""
    flips = [1 - _agreement(verdicts) for verdicts in items if len(verdicts) > 1]
    return clustered_mean([Sums(1, flip) for flip in flips], bounds=(0, 1))


def fleiss_kappa(items: Sequence[Sequence[str]]) -> float | None:
    """Fleiss' kappa: agreement within items beyond chance; None if all verdicts are equal."""
    repeated = [verdicts for verdicts in items if len(verdicts) > 1]
    everything = Counter(verdict for verdicts in repeated for verdict in verdicts)
    if len(everything) < 2:
        return None
    seen = math.fsum(_agreement(verdicts) for verdicts in repeated) / len(repeated)
    chance = math.fsum((count / everything.total()) ** 2 for count in everything.values())
    return (seen - chance) / (1 - chance)


def _agreement(verdicts: Sequence[str]) -> float:
    """The share of equal pairs of verdicts."""
    n = len(verdicts)
    return sum(count * (count - 1) for count in Counter(verdicts).values()) / (n * (n - 1))


def cohen_kappa(pairs: Sequence[tuple[str, str]]) -> float | None:
    """Cohen's kappa: agreement of two raters beyond chance; None without pairs, or if all verdicts are equal."""
    if not pairs:
        return None
    first, second = Counter(a for a, _ in pairs), Counter(b for _, b in pairs)
    chance = sum(first[word] * second[word] for word in first) / len(pairs) ** 2
    if chance == 1:
        return None
    return (sum(a == b for a, b in pairs) / len(pairs) - chance) / (1 - chance)


def bootstrap(items: Sequence[Item], figure: Callable[[Sequence[Item]], float | None]) -> Interval:
    """A figure with its bootstrap interval over items. Seeded."""
    value = figure(items)
    if value is None or len(items) < _FEWEST:
        return Interval(value, -1.0, 1.0, "too few labels, or all equal")
    rng = Random(0)  # noqa: S311 - statistics, not secrets; the same answer every time
    drawn = [figure(rng.choices(items, k=len(items))) for _ in range(_RESAMPLES)]
    values = sorted(each for each in drawn if each is not None)
    if len(values) < _RESAMPLES / 2:
        return Interval(value, -1.0, 1.0, "most resamples are all equal: too little variety for an interval")
    tail = (1 - CONFIDENCE) / 2
    return Interval(value, min(value, quantile(values, tail)), max(value, quantile(values, 1 - tail)))


def precision_and_recall(pairs: Sequence[tuple[bool, bool]]) -> tuple[Interval, Interval]:
    """Of the verdicts `met`, the share that is right; of what is met, the share that was judged so. From (verdict, truth)."""
    counts = Counter(pairs)
    both = counts[True, True]
    return wilson(both, both + counts[True, False]), wilson(both, both + counts[False, True])


@dataclass(frozen=True, slots=True)
class RankChange:
    """The effect on verdicts of a change that should not matter."""

    asked: int
    better: int
    """Verdicts that became better."""
    worse: int
    share: Interval
    """The share of verdicts that changed."""
    p_value: float
    """The chance of so uneven a split between better and worse if the change has no effect."""


def rank_change(ranks: Sequence[tuple[int, int]]) -> RankChange:
    """From pairs of ranks, before and after."""
    better = sum(after > before for before, after in ranks)
    worse = sum(after < before for before, after in ranks)
    return RankChange(len(ranks), better, worse, wilson(better + worse, len(ranks)), mcnemar(better, worse))


def prediction_powered(judged: Sequence[float], labelled: Sequence[tuple[float, float]]) -> Interval:
    """Prediction-powered inference: the mean human label, from a judge's values for all items and labels for some.

    `judged` are the judge's values of items without a label, `labelled` are pairs of the judge's value and the label. The judge's
    mean is corrected by its mean error on labelled items: unbiased for any judge, and narrow for a good one.
    """
    n, whole = len(labelled), len(judged) + len(labelled)
    if n == 0:
        return Interval(None, -math.inf, math.inf, "no labels")
    # what each labelled item adds: its share of the judge's mean, and the whole of the correction
    parts = [said / whole + (right - said) / n for said, right in labelled]
    value = math.fsum(parts) + math.fsum(judged) / whole
    if n == 1:
        return Interval(value, -math.inf, math.inf, "one label is too few for an interval")
    variance = n * _variance(parts) + (len(judged) * _variance(judged) / whole**2 if len(judged) > 1 else 0.0)
    half = normal_width(CONFIDENCE) * math.sqrt(variance)
    return Interval(value, value - half, value + half)


def _variance(values: Sequence[float]) -> float:
    mean = math.fsum(values) / len(values)
    return math.fsum((value - mean) ** 2 for value in values) / (len(values) - 1)
