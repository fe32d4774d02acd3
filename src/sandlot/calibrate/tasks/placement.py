"""The placement of each task, with advice: one record per task."""

from enum import StrEnum
from statistics import fmean, pstdev

import msgspec

from sandlot.calibrate.tasks.allocate import Count
from sandlot.calibrate.tasks.rule import Belief, Masses, Region, Rule, masses, region_placed
from sandlot.calibrate.tasks.state import CalibrationState
from sandlot.core.stats.intervals import beta_quantile


class TaskLabel(StrEnum):
    """Difficulty of a task for a model."""

    IN_BAND = "in_band"
    TOO_HARD = "too_hard"
    TOO_EASY = "too_easy"
    FLAT = "flat"  # in the band by its pass rate, but its rewards hardly differ
    BORDERLINE = "borderline"  # not placed before the cap or the end of the budget
    UNSCORABLE = "unscorable"  # no rollout of it was ever scored


_PLACED = {Region.BELOW: TaskLabel.TOO_HARD, Region.INSIDE: TaskLabel.IN_BAND, Region.ABOVE: TaskLabel.TOO_EASY}
WORDS = {Region.BELOW: "too hard", Region.INSIDE: "in the band", Region.ABOVE: "too easy"}

_ADVICE = {
    TaskLabel.IN_BAND: "train on it",
    TaskLabel.TOO_EASY: "make it harder, or keep it for evaluation",
    TaskLabel.TOO_HARD: "check that the golden solution passes; then add a hint, split it, or use a better model",
    TaskLabel.FLAT: "its rewards hardly differ: give its rubric finer points",
    TaskLabel.UNSCORABLE: "none of its rollouts could be scored: fix what failed",
}


class Placement(msgspec.Struct, frozen=True, kw_only=True):
    """The placement of one task for a model."""

    task: str
    family: str
    label: TaskLabel
    likeliest: Region
    passed: int
    scored: int
    failed: int
    """Rollouts without a score; they do not count in the pass rate."""
    rate: float
    """Expected pass rate, as the grader shows it."""
    low: float
    high: float
    """Interval of the pass rate, at the rule's confidence."""
    true_rate: float
    """The pass rate corrected for the grader's errors; equal to `rate` without errors."""
    below: float
    inside: float
    above: float
    """Posterior mass below the band, inside and above."""
    reward_mean: float | None
    reward_std: float | None
    """Mean and standard deviation of the rewards of scored rollouts."""
    informative: float
    """Probability that a group of rollouts has both passes and failures."""
    advice: str

    @property
    def teaches(self) -> bool:
        """True if the task belongs in a curriculum: it is in the band, or most likely is."""
        return self.label is TaskLabel.IN_BAND or (self.label is TaskLabel.BORDERLINE and self.likeliest is Region.INSIDE)


def placements(standing: CalibrationState, *, group: int) -> tuple[Placement, ...]:
    """The placement of every task."""
    counts, priors = standing.counts, standing.priors()
    rewards = [reward for taken in standing.taken.values() for reward in taken.rewards]
    span = max([1.0, *rewards]) - min([0.0, *rewards])  # a rubric may clip at other values than 0 and 1
    return tuple(_placement(standing, task.id, counts[task.id], priors[task.id], span, group) for task in standing.tasks)


def _informative(belief: Belief, group: int) -> float:
    """Probability that `group` rollouts neither all pass nor all fail: only such a group gives a training signal."""
    return max(0.0, 1 - belief.power(group) - Belief(belief.b, belief.a).power(group))


def _placement(standing: CalibrationState, task: str, count: Count, prior: Belief, span: float, group: int) -> Placement:
    """The placement of one task; `span` is the range of rewards in this calibration."""
    rule, rewards = standing.rule, standing.taken[task].rewards
    belief = prior.after(count.passed, count.scored)
    mass = masses(rule, belief)
    spread = pstdev(rewards) if rewards else None
    flat = spread is not None and spread <= rule.flat * span
    label = _label(rule, prior, count, flat=flat)
    tail = (1 - rule.confidence) / 2
    return Placement(
        task=task,
        family=standing.families[task],
        label=label,
        likeliest=mass.likeliest,
        passed=count.passed,
        scored=count.scored,
        failed=count.failed,
        rate=belief.mean,
        low=beta_quantile(tail, belief.a, belief.b),
        high=beta_quantile(1 - tail, belief.a, belief.b),
        true_rate=rule.corrected(belief.mean),
        below=mass.below,
        inside=mass.inside,
        above=mass.above,
        reward_mean=fmean(rewards) if rewards else None,
        reward_std=spread,
        informative=_informative(belief, group),
        advice=_advice(rule, label, count, mass, None if flat else spread),
    )


def _label(rule: Rule, prior: Belief, count: Count, *, flat: bool) -> TaskLabel:
    if count.scored == 0:
        return TaskLabel.UNSCORABLE if count.failed else TaskLabel.BORDERLINE
    region = region_placed(rule, prior, count.passed, count.scored)
    if region is None:
        return TaskLabel.BORDERLINE
    return TaskLabel.FLAT if flat and region is Region.INSIDE else _PLACED[region]


def _advice(rule: Rule, label: TaskLabel, count: Count, mass: Masses, spread: float | None) -> str:
    """What to do about the task; `spread` is the standard deviation of its rewards, None if they hardly differ."""
    if label is TaskLabel.TOO_HARD and spread is not None:
        return f"its partial credit varies (by {spread:.2f}), so its score may still be a training signal; or lower --threshold"
    if label is not TaskLabel.BORDERLINE:
        return _ADVICE[label]
    more = "more rollouts would decide" if count.taken < rule.cap else "a larger --cap would decide"
    return f"{WORDS[mass.likeliest]} with {mass.of(mass.likeliest):.0%}; {more}"
