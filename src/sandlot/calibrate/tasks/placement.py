"""Where each task lies, and what to do about it: one record a task, for people and machines."""

from dataclasses import dataclass
from enum import StrEnum
from statistics import fmean, pstdev

import msgspec

from sandlot.calibrate.tasks.allocate import Count
from sandlot.calibrate.tasks.rule import Belief, Masses, Region, Rule, masses, region_placed
from sandlot.calibrate.tasks.state import CalibrationState, Taken
from sandlot.core.stats.intervals import beta_quantile


class TaskLabel(StrEnum):
    """What a task is to this model."""

    IN_BAND = "in_band"
    TOO_HARD = "too_hard"
    TOO_EASY = "too_easy"
    FLAT = "flat"  # in the band by its pass rate, but its rewards hardly differ
    BORDERLINE = "borderline"  # not placed before the cap or the end of the budget
    UNSCORABLE = "unscorable"  # no rollout of it was ever scored


_PLACED = {Region.BELOW: TaskLabel.TOO_HARD, Region.INSIDE: TaskLabel.IN_BAND, Region.ABOVE: TaskLabel.TOO_EASY}
WORDS = {Region.BELOW: "too hard", Region.INSIDE: "in the band", Region.ABOVE: "too easy"}

_ADVICE = {
    TaskLabel.IN_BAND: "learn from it",
    TaskLabel.TOO_EASY: "make it harder, or keep it for measuring",
    TaskLabel.TOO_HARD: "see that the golden solution passes; then give a hint, split it, or wait for a better model",
    TaskLabel.FLAT: "its rewards hardly differ: give its rubric finer points",
    TaskLabel.UNSCORABLE: "none of its rollouts could be scored: fix what failed",
}


class Placement(msgspec.Struct, frozen=True, kw_only=True):
    """One task, as this model finds it."""

    task: str
    family: str
    label: TaskLabel
    likeliest: Region
    passed: int
    scored: int
    failed: int
    """Rollouts without a score; they are no part of the rate."""
    rate: float
    """The pass rate that is expected, as the grader shows it."""
    low: float
    high: float
    """Between these the rate lies with the rule's confidence."""
    true_rate: float
    """The same, corrected for the grader's errors; equal to `rate` where none are given."""
    below: float
    inside: float
    above: float
    """How much of the belief lies below the band, in it, above it."""
    reward_mean: float | None
    reward_std: float | None
    """Of the scored rollouts' rewards."""
    informative: float
    """The chance that a group of rollouts of it has both passes and failures."""
    advice: str

    @property
    def teaches(self) -> bool:
        """True if it belongs into a curriculum: it is in the band, or that is where it most likely is."""
        return self.label is TaskLabel.IN_BAND or (self.label is TaskLabel.BORDERLINE and self.likeliest is Region.INSIDE)


def placements(standing: CalibrationState, *, group: int) -> tuple[Placement, ...]:
    """Every task as it stands."""
    counts, priors = standing.counts, standing.priors()
    rewards = [reward for taken in standing.taken.values() for reward in taken.rewards]
    span = max([1.0, *rewards]) - min([0.0, *rewards])  # a rubric may clip elsewhere than at 0 and 1
    return tuple(
        _placement(
            _Seen(task.id, standing.families[task.id], counts[task.id], standing.taken[task.id], span),
            standing.rule,
            priors[task.id],
            group,
        )
        for task in standing.tasks
    )


def _informative(belief: Belief, group: int) -> float:
    """The chance that `group` rollouts neither all pass nor all fail: only such a group says what to do more of."""
    return max(0.0, 1 - belief.power(group) - Belief(belief.b, belief.a).power(group))


@dataclass(frozen=True, slots=True)
class _Seen:
    """What there is to know of one task."""

    task: str
    family: str
    count: Count
    taken: Taken
    span: float
    """The range of rewards in this calibration."""


def _placement(seen: _Seen, rule: Rule, prior: Belief, group: int) -> Placement:
    count, rewards = seen.count, seen.taken.rewards
    belief = prior.after(count.passed, count.scored)
    mass = masses(rule, belief)
    spread = pstdev(rewards) if rewards else None
    flat = spread is not None and spread <= rule.flat * seen.span
    label = _label(rule, prior, count, flat=flat)
    tail = (1 - rule.confidence) / 2
    return Placement(
        task=seen.task,
        family=seen.family,
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
    """What to do about it; `spread` is that of its rewards, None if they hardly differ."""
    if label is TaskLabel.TOO_HARD and spread is not None:
        return f"its partial credit varies (by {spread:.2f}), so its score may still teach; or ask for less with --threshold"
    if label is not TaskLabel.BORDERLINE:
        return _ADVICE[label]
    more = "more rollouts would tell" if count.taken < rule.cap else "a larger --cap would tell"
    return f"{WORDS[mass.likeliest]} with {mass.of(mass.likeliest):.0%}; {more}"
