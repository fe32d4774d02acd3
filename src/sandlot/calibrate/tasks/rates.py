"""Error rate and cost of the stopping rule, computed exactly.

The state of a task is (passed, scored); it leaves when it is placed or at the cap. The probability of every ending is therefore a
sum over states, without simulation noise. It is computed for tasks of a known pass rate, and for tasks drawn from a family. The
baseline takes the same number of rollouts of every task and places each by the same posterior.
"""

from collections.abc import Callable, Iterator
from itertools import count

import msgspec

from sandlot.calibrate.tasks.rule import Belief, Region, Rule, masses, region_placed

GRID = (0.0, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.55, 0.6, 0.7, 0.8, 0.9, 1.0)
"""Pass rates for which the command prints error rates."""
_MOST_FIXED = 192
"""Largest fixed number of rollouts that is searched."""

State = tuple[int, int]
"""Passed, of scored."""


class Rates(msgspec.Struct, frozen=True, kw_only=True):
    """Results of the rule, as shares of tasks."""

    rate: float | None
    """True pass rate of the tasks; None for tasks drawn from a family."""
    below: float
    inside: float
    above: float
    borderline: float
    wrong: float
    """Share placed in a wrong region."""
    error: float
    """Share that is wrong if borderline tasks, too, are placed in their likeliest region."""
    rollouts: float
    """Mean rollouts per task."""


class Fixed(msgspec.Struct, frozen=True, kw_only=True):
    """Minimum fixed number of rollouts per task with an error rate no higher than the rule's."""

    rollouts: int
    error: float


def rates_at(rule: Rule, prior: Belief, rate: float) -> Rates:
    """The rates for tasks whose true pass rate is `rate`, placed with this prior."""
    shown = rule.observed(rate)

    def wrong(region: Region, _state: State) -> float:
        return float(region is not rule.region(rate) and not _touches(rule, region, rate))

    return _summed(rule, prior, _endings(rule, prior, lambda _passed, _scored: shown), wrong, rate)


def rates_over(rule: Rule, prior: Belief, family: Belief) -> Rates:
    """The rates for tasks drawn from `family`, placed with this prior."""

    def passes(passed: int, scored: int) -> float:
        return family.after(passed, scored).mean

    def wrong(region: Region, state: State) -> float:
        return 1 - masses(rule, family.after(*state)).of(region)

    return _summed(rule, prior, _endings(rule, prior, passes), wrong, None)


def fixed_with_same_error(error_at: Callable[[int], float], *, error: float, least: int = 1) -> Fixed | None:
    """The smallest number of rollouts per task with an error of at most `error`; None if none is small enough to try."""
    for scored in range(least, _MOST_FIXED + 1):
        found = error_at(scored)
        if found <= error:
            return Fixed(rollouts=scored, error=found)
    return None


def error_of_fixed(rule: Rule, prior: Belief, family: Belief, scored: int) -> float:
    """Share of a family's tasks that are placed in a wrong region after `scored` rollouts of each."""

    def missed(passed: int) -> float:
        called = masses(rule, prior.after(passed, scored)).likeliest
        return 1 - masses(rule, family.after(passed, scored)).of(called)

    return sum(family.chance(passed, scored) * missed(passed) for passed in range(scored + 1))


def _walk(passes: Callable[[int, int], float]) -> Iterator[tuple[int, dict[int, float]]]:
    """After each number of rollouts, the probability of every number of passes. The caller removes those that have ended."""
    chances = {0: 1.0}
    for scored in count():
        yield scored, chances
        following: dict[int, float] = {}
        for passed, chance in chances.items():
            share = passes(passed, scored)
            following[passed] = following.get(passed, 0.0) + chance * (1 - share)
            following[passed + 1] = following.get(passed + 1, 0.0) + chance * share
        chances = following


def _endings(rule: Rule, prior: Belief, passes: Callable[[int, int], float]) -> Iterator[tuple[Region | None, State, float]]:
    """Every possible ending of a task: its region (None for borderline), its state, and the probability."""
    for scored, chances in _walk(passes):
        for passed in list(chances):
            region = region_placed(rule, prior, passed, scored)
            if region is not None or scored == rule.cap:
                yield region, (passed, scored), chances.pop(passed)
        if not chances:
            return


def _summed(
    rule: Rule,
    prior: Belief,
    endings: Iterator[tuple[Region | None, State, float]],
    wrong: Callable[[Region, State], float],
    rate: float | None,
) -> Rates:
    shares: dict[Region | None, float] = dict.fromkeys((*Region, None), 0.0)
    misplaced = error = rollouts = 0.0
    for region, state, chance in endings:
        shares[region] += chance
        rollouts += chance * state[1]
        missed = chance * wrong(region or masses(rule, prior.after(*state)).likeliest, state)
        error += missed
        misplaced += missed if region is not None else 0.0
    return Rates(
        rate=rate,
        below=shares[Region.BELOW],
        inside=shares[Region.INSIDE],
        above=shares[Region.ABOVE],
        borderline=shares[None],
        wrong=misplaced,
        error=error,
        rollouts=rollouts,
    )


def _touches(rule: Rule, region: Region, rate: float) -> bool:
    """True if `rate` is exactly on an edge of `region`: then either side is right."""
    return (rate == rule.low and region is Region.BELOW) or (rate == rule.high and region is Region.ABOVE)
