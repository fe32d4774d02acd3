"""How far verdicts can be believed: agreement beyond chance, what moves them, and means corrected by a few human labels.

Verdicts about one item resemble each other, so items are what is drawn again in a bootstrap, never single verdicts. A figure that
does not exist, such as the agreement beyond chance of people who all said the same, is None and not 0 or 1.

`flip_rate` and `fleiss_kappa` measure one rater asked several times, `cohen_kappa` two raters, `Confusion` a rater against the
truth, `rank_change` verdicts before and after a change that should not matter, `prediction_powered` means.
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
"""Items from which drawing again says anything."""

Item = TypeVar("Item")


def flip_rate(items: Sequence[Sequence[str]]) -> Interval:
    """The chance that asking once more about the same item gives another verdict; items asked only once do not count."""
    flips = [1 - _agreement(verdicts) for verdicts in items if len(verdicts) > 1]
    return clustered_mean([Sums(1, flip) for flip in flips], bounds=(0, 1))


def fleiss_kappa(items: Sequence[Sequence[str]]) -> float | None:
    """Agreement within items beyond what the mix of verdicts alone would give; None if all verdicts are the same."""
    repeated = [verdicts for verdicts in items if len(verdicts) > 1]
    everything = Counter(verdict for verdicts in repeated for verdict in verdicts)
    if len(everything) < 2:
        return None
    seen = math.fsum(_agreement(verdicts) for verdicts in repeated) / len(repeated)
    chance = math.fsum((count / everything.total()) ** 2 for count in everything.values())
    return (seen - chance) / (1 - chance)


def _agreement(verdicts: Sequence[str]) -> float:
    """The share of pairs of verdicts that are the same."""
    n = len(verdicts)
    return sum(count * (count - 1) for count in Counter(verdicts).values()) / (n * (n - 1))


def cohen_kappa(pairs: Sequence[tuple[str, str]]) -> float | None:
    """Agreement of two beyond chance; None if both said one and the same thing throughout, or nothing."""
    if not pairs:
        return None
    first, second = Counter(a for a, _ in pairs), Counter(b for _, b in pairs)
    chance = sum(first[word] * second[word] for word in first) / len(pairs) ** 2
    if chance == 1:
        return None
    return (sum(a == b for a, b in pairs) / len(pairs) - chance) / (1 - chance)


def bootstrap(
    items: Sequence[Item], figure: Callable[[Sequence[Item]], float | None], *, confidence: float = CONFIDENCE, seed: int = 0
) -> Interval:
    """A figure with the interval of its values on items drawn again and again, with replacement. Seeded."""
    value = figure(items)
    if value is None or len(items) < _FEWEST:
        return Interval(value, -1.0, 1.0, "too little was labelled, or all of it alike")
    rng = Random(seed)  # noqa: S311 - statistics, not secrets; the same answer every time
    drawn = [figure(rng.choices(items, k=len(items))) for _ in range(_RESAMPLES)]
    values = sorted(each for each in drawn if each is not None)
    if len(values) < _RESAMPLES / 2:
        return Interval(value, -1.0, 1.0, "most draws came out all alike: there is too little variety for an interval")
    tail = (1 - confidence) / 2
    return Interval(value, min(value, quantile(values, tail)), max(value, quantile(values, 1 - tail)))


@dataclass(frozen=True, slots=True)
class Confusion:
    """One who says `met` or not, against one who is taken to be right."""

    both: int = 0
    only_judge: int = 0
    only_right: int = 0
    neither: int = 0

    @classmethod
    def of(cls, pairs: Sequence[tuple[bool, bool]]) -> "Confusion":
        """From (said so, is so)."""
        counts = Counter(pairs)
        return cls(counts[True, True], counts[True, False], counts[False, True], counts[False, False])

    @property
    def precision(self) -> Interval:
        """Of what it called met, the share that is."""
        return wilson(self.both, self.both + self.only_judge)

    @property
    def recall(self) -> Interval:
        """Of what is met, the share that it called so."""
        return wilson(self.both, self.both + self.only_right)


@dataclass(frozen=True, slots=True)
class RankChange:
    """What a change that should not matter did to verdicts."""

    asked: int
    up: int
    """Verdicts that became better."""
    down: int
    share: Interval
    """Of verdicts that changed at all."""
    p_value: float
    """The chance of so uneven a split between better and worse, if the change did not matter."""


def rank_change(ranks: Sequence[tuple[int, int]]) -> RankChange:
    """From the ranks of verdicts before and after."""
    up = sum(after > before for before, after in ranks)
    down = sum(after < before for before, after in ranks)
    return RankChange(len(ranks), up, down, wilson(up + down, len(ranks)), mcnemar(up, down))


def prediction_powered(
    judged: Sequence[float], labelled: Sequence[tuple[float, float]], *, confidence: float = CONFIDENCE
) -> Interval:
    """The mean people would have given, from what a judge gave all and people gave some.

    `judged` are values the judge gave where nobody else did, `labelled` pairs of the judge's value and a person's. The judge's
    mean over all, corrected by how far it was off where that is known: unbiased whatever the judge is worth, and narrow if it is
    good.
    """
    n, whole = len(labelled), len(judged) + len(labelled)
    if n == 0:
        return Interval(None, -math.inf, math.inf, "nothing was labelled")
    # what each labelled item adds: its share of the judge's mean, and the whole of the correction
    parts = [said / whole + (right - said) / n for said, right in labelled]
    value = math.fsum(parts) + math.fsum(judged) / whole
    if n == 1:
        return Interval(value, -math.inf, math.inf, "one label says nothing about others")
    variance = n * _variance(parts) + (len(judged) * _variance(judged) / whole**2 if len(judged) > 1 else 0.0)
    half = normal_width(confidence) * math.sqrt(variance)
    return Interval(value, value - half, value + half)


def _variance(values: Sequence[float]) -> float:
    mean = math.fsum(values) / len(values)
    return math.fsum((value - mean) ** 2 for value in values) / (len(values) - 1)
