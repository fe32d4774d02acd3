"""Survivor bias: whether rollouts without a score are the long or the hard ones, so that the others look better than they are.

A failed rollout was cut short, so being *shorter* than the others means nothing; being longer does. How hard a task is shows in
the scores of its other rollouts.
"""

from collections import defaultdict
from collections.abc import Sequence

from sandlot.analysis.health.item import HealthItem, HealthMark
from sandlot.core.stats.tests import Difference, holm, rank_difference
from sandlot.core.trace_row import TraceRow

_FEWEST_EXCLUDED = 10
_MOST_EXCLUDED = 0.02
_BIASED = 0.65
_ALPHA = 0.01
_SAID = {
    "turns": "take more turns",
    "calls": "call more tools",
    "completion_tokens": "have more completion tokens",
    "hardness": "are of harder tasks",
    "easiness": "are of easier tasks",
}


def survivors(rows: Sequence[TraceRow]) -> HealthItem:
    """Compare rollouts without a score with the others: a warning for an AUC above 0.65, if more than 2 % have no score."""
    excluded = [row for row in rows if row.score is None]
    kept = [row for row in rows if row.score is not None]
    share = len(excluded) / len(rows) if rows else 0.0
    counts = {"rollouts": len(rows), "excluded": len(excluded), "share": share}
    if share <= _MOST_EXCLUDED:
        said = f"{share:.1%} of rollouts have no score: too few to bias the mean" if excluded else "every rollout has a score"
        return HealthItem(name="survivors", mark=HealthMark.OK, said=said, figures=counts)
    if min(len(excluded), len(kept)) < _FEWEST_EXCLUDED:
        return HealthItem(
            name="survivors",
            mark=HealthMark.UNKNOWN,
            said=f"{len(excluded)} rollouts have no score and {len(kept)} have one",
            needed=f"{_FEWEST_EXCLUDED} of each",
            figures=counts,
        )
    found = _compared(excluded, kept)
    adjusted = holm([each.p_value for each in found.values()])
    biased = [name for (name, each), p in zip(found.items(), adjusted, strict=True) if each.size > _BIASED and p < _ALPHA]
    figures = {**counts, "auc": {name: each.size for name, each in found.items()}}
    if not biased:
        return HealthItem(
            name="survivors",
            mark=HealthMark.OK,
            said=f"the {share:.0%} without a score are like the others",
            figures=figures,
        )
    worst = max(biased, key=lambda name: found[name].size)
    return HealthItem(
        name="survivors",
        mark=HealthMark.WARN,
        said=f"the {share:.0%} of rollouts without a score {_SAID[worst]} (AUC {found[worst].size:.2f}): "
        "the mean score is biased",
        figures=figures,
        look=tuple(f"{row.task}/{row.rollout}" for row in excluded[:3]),
    )


def _compared(excluded: Sequence[TraceRow], kept: Sequence[TraceRow]) -> dict[str, Difference]:
    found = {
        name: rank_difference((getattr(row, name) for row in excluded), (getattr(row, name) for row in kept))
        for name in ("turns", "calls", "completion_tokens")
    }
    means = _means(kept)
    if len({round(mean, 9) for mean in means.values()}) > 1:
        theirs = [means[row.task] for row in excluded if row.task in means]
        rest = [means[row.task] for row in kept]
        found["hardness"] = rank_difference((-mean for mean in theirs), (-mean for mean in rest))
        found["easiness"] = rank_difference(theirs, rest)
    return found


def _means(kept: Sequence[TraceRow]) -> dict[str, float]:
    """The mean score of each task."""
    scores: defaultdict[str, list[float]] = defaultdict(list)
    for row in kept:
        scores[row.task].append(row.score or 0.0)
    return {task: sum(each) / len(each) for task, each in scores.items()}
