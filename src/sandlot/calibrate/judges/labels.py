"""Agreement of a judge with people, beyond chance, compared with the agreement of people with each other.

Every label counts as one opinion: the judge is compared with each rater, and the ceiling is the agreement of two raters of one
item. Intervals are bootstrapped over items, because labels of one item are not independent.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import msgspec

from sandlot.calibrate.judges.items import JudgedItem
from sandlot.core.stats.agreement import bootstrap, cohen_kappa, precision_and_recall, prediction_powered
from sandlot.core.stats.intervals import Interval


class Agreement(msgspec.Struct, frozen=True, kw_only=True):
    """Agreement on one check, or on all."""

    check: str
    """Id of the check; empty for all checks together."""
    labelled: int
    """Items with a verdict and at least one label."""
    kappa: Interval
    """Cohen's kappa of judge and people."""
    human: Interval | None
    """Cohen's kappa of people with each other: the ceiling; None unless items have two raters."""
    precision: Interval
    """Share of the judge's positive verdicts that people gave too."""
    recall: Interval
    """Share of people's positive verdicts that the judge gave too."""


@dataclass(frozen=True, slots=True)
class JudgedLabel:
    """An item with the judge's verdict; None if the reply was unreadable."""

    item: JudgedItem
    verdict: str | None

    @property
    def value(self) -> float | None:
        """The verdict as a number from 0 (worst choice) to 1 (best)."""
        return None if self.verdict is None else _value(self.item, self.verdict)

    @property
    def human(self) -> float | None:
        """The mean of people's labels, from 0 to 1."""
        labels = self.item.labels
        return sum(_value(self.item, label) for label in labels) / len(labels) if labels else None

    def pairs(self) -> list[tuple[str, str]]:
        """The judge's verdict with each rater's label."""
        return [(self.verdict, label) for label in self.item.labels] if self.verdict is not None else []

    def human_pairs(self) -> list[tuple[str, str]]:
        """The labels of every two raters."""
        return list(combinations(self.item.labels, 2))


def agreements(everyone: Sequence[JudgedLabel]) -> tuple[Agreement, ...]:
    """Overall, then by check if there are several; empty without labels."""
    judged = [each for each in everyone if each.item.labels and each.verdict is not None]
    if not judged:
        return ()
    by_check: defaultdict[str, list[JudgedLabel]] = defaultdict(list)
    for each in judged:
        by_check[each.item.check].append(each)
    rest = [_agreement(name, of_check) for name, of_check in by_check.items()] if len(by_check) > 1 else []
    return (_agreement("", judged), *rest)


def corrected_mean(everyone: Sequence[JudgedLabel]) -> Interval | None:
    """The estimated mean verdict of people over all items; None without labels."""
    pairs = [(each.value, each.human) for each in everyone if each.value is not None and each.human is not None]
    alone = [each.value for each in everyone if each.value is not None and each.human is None]
    return prediction_powered(alone, pairs) if pairs else None


def _agreement(check: str, judged: Sequence[JudgedLabel]) -> Agreement:
    met = [(_met(each.item, a), _met(each.item, b)) for each in judged for a, b in each.pairs()]
    precision, recall = precision_and_recall(met)
    twice = [each for each in judged if len(each.item.labels) > 1]
    return Agreement(
        check=check,
        labelled=len(judged),
        kappa=bootstrap([each.pairs() for each in judged], _kappa),
        human=bootstrap([each.human_pairs() for each in twice], _kappa) if twice else None,
        precision=precision,
        recall=recall,
    )


def _kappa(drawn: Sequence[list[tuple[str, str]]]) -> float | None:
    return cohen_kappa([pair for pairs in drawn for pair in pairs])


def _met(item: JudgedItem, verdict: str) -> bool:
    return verdict == item.choices[-1]


def _value(item: JudgedItem, verdict: str) -> float:
    return item.choices.index(verdict) / (len(item.choices) - 1)
