"""Allocation of the next rollouts to the tasks where they are expected to help most.

Without a budget, every task that is not placed gets more; the order makes no difference. With a budget, tasks are ranked by their
expected gain: how much the next useful number of rollouts (`fewest_more`) adds to the mass of the likeliest region, per rollout.
So one undecidable task does not use up the rollouts of ten that are easy to place.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from sandlot.calibrate.tasks.rule import Belief, Rule, fewest_more, masses

_SHARE_OF_BUDGET = 0.25
"""Share of the remaining budget that one wave may use."""


@dataclass(frozen=True, slots=True)
class Count:
    """The finished rollouts of one task."""

    passed: int = 0
    scored: int = 0
    failed: int = 0
    """Rollouts without a score: not part of the pass rate, but they were taken."""

    @property
    def taken(self) -> int:
        """Rollouts in all."""
        return self.scored + self.failed


def num_wanted(rule: Rule, prior: Belief, count: Count) -> int:
    """Number of rollouts a task needs next; 0 if it is placed, at the cap, or was never scored."""
    if count.taken < rule.start:
        return rule.start - count.taken
    if count.scored == 0:
        return 0
    return max(0, min(fewest_more(rule, prior, count.passed, count.scored), rule.cap - count.taken))


def expected_gain(rule: Rule, prior: Belief, count: Count, more: int) -> float:
    """Expected gain in the mass of the likeliest region from `more` rollouts, per rollout."""
    belief = prior.after(count.passed, count.scored)
    now = masses(rule, belief)
    then = 0.0
    for passed in range(more + 1):
        found = masses(rule, belief.after(passed, more))
        then += belief.chance(passed, more) * found.of(found.likeliest)
    return (then - now.of(now.likeliest)) / more


def next_rollouts(
    rule: Rule, priors: Mapping[str, Belief], counts: Mapping[str, Count], *, left: int | None, at_once: int
) -> dict[str, int]:
    """The next rollouts by task; empty when all are placed or the budget is used up. `left` is None without a budget."""
    wants = {task: num_wanted(rule, priors[task], count) for task, count in counts.items()}
    wants = {task: more for task, more in wants.items() if more > 0}
    if left is None or sum(wants.values()) == 0:
        return wants
    wave = min(left, max(at_once, int(left * _SHARE_OF_BUDGET)))
    return _fill_wave(wave, wants, _best_first(rule, priors, counts, wants))


def _best_first(rule: Rule, priors: Mapping[str, Belief], counts: Mapping[str, Count], wants: Mapping[str, int]) -> Iterable[str]:
    opening = [task for task in wants if counts[task].taken < rule.start]
    others = [task for task in wants if counts[task].taken >= rule.start]
    gains = {task: expected_gain(rule, priors[task], counts[task], wants[task]) for task in others}
    return [*opening, *sorted(others, key=lambda task: -gains[task])]


def _fill_wave(wave: int, wants: Mapping[str, int], order: Iterable[str]) -> dict[str, int]:
    given: dict[str, int] = {}
    for task in order:
        if wave <= 0:
            break
        given[task] = min(wave, wants[task])
        wave -= given[task]
    return given
