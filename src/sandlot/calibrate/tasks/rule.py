"""The stopping rule: when a task counts as placed, from the posterior of its pass rate.

What is known of a task's pass rate is a Beta distribution. The task is *placed* as soon as one of three regions (below the band,
inside, above) holds `confidence` of its mass. Stopping at any time is valid: the posterior does not depend on why counting ended.
The error rate of the rule is computed in `rates.py`, never assumed.

A grader that errs shows the rate q = p (1 - FN) + (1 - p) FP instead of the true rate p. The posterior is of q, so the edges of
the band are mapped to q, and rates are reported both ways (Rogan and Gladen).
"""

import math
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache

import msgspec

from sandlot.core.errors import ConfigError
from sandlot.core.stats.intervals import beta_cdf


class Region(StrEnum):
    """Where a pass rate lies relative to the band."""

    BELOW = "below"
    INSIDE = "inside"
    ABOVE = "above"


class Rule(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The band, and the confidence to place a task."""

    low: float = 0.2
    """Lower edge of the band: below it a task is too hard."""
    high: float = 0.5
    """Upper edge of the band: above it a task is too easy."""
    confidence: float = 0.9
    """Posterior mass that one region must hold."""
    start: int = 4
    """Rollouts of every task before the first decision."""
    cap: int = 32
    """Rollouts after which a task that is not placed is called borderline."""
    threshold: float = 1.0
    """A rollout passes if its reward is at least this."""
    flat: float = 0.05
    """Rewards whose standard deviation is at most this share of their range give no training signal."""
    false_positive: float = 0.0
    """Share of wrong results that the grader passes."""
    false_negative: float = 0.0
    """Share of right results that the grader fails."""

    def __post_init__(self) -> None:
        wrong = None
        if not 0 <= self.low < self.high <= 1:
            wrong = f"the band is {self.low:g} to {self.high:g}; give two rising shares from 0 to 1, such as 0.2:0.5"
        elif not 0.5 < self.confidence < 1:
            wrong = f"confidence is {self.confidence:g}; give a share above 0.5 and below 1, such as 0.9"
        elif not 1 <= self.start <= self.cap:
            wrong = f"start is {self.start} and cap {self.cap}; give 1 <= start <= cap"
        elif not math.isfinite(self.threshold) or not 0 <= self.flat < 1:
            wrong = f"threshold is {self.threshold:g} and flat {self.flat:g}; give a finite reward, and a share below 1"
        elif min(self.false_positive, self.false_negative) < 0 or not self.false_positive + self.false_negative < 1:
            wrong = (
                f"the grader's errors are {self.false_positive:g} (false passes) and {self.false_negative:g} (false failures); "
                "give two shares with a sum below 1: from 1 on, the grader carries no information"
            )
        if wrong:
            raise ConfigError(wrong)

    def observed(self, rate: float) -> float:
        """The pass rate that the grader shows for the true rate `rate`."""
        return rate * (1 - self.false_negative) + (1 - rate) * self.false_positive

    def corrected(self, shown: float) -> float:
        """The true pass rate for one that the grader shows, clipped to 0 to 1."""
        true = (shown - self.false_positive) / (1 - self.false_negative - self.false_positive)
        return min(1.0, max(0.0, true))

    def region(self, rate: float) -> Region:
        """The region of a true pass rate; the edges belong to the band."""
        return Region.BELOW if rate < self.low else Region.ABOVE if rate > self.high else Region.INSIDE


@dataclass(frozen=True, slots=True)
class Belief:
    """Beta(a, b), the distribution of a pass rate. Default: Jeffreys' prior, which is uninformative."""

    a: float = 0.5
    b: float = 0.5

    @property
    def mean(self) -> float:
        """The expected pass rate."""
        return self.a / (self.a + self.b)

    @property
    def variance(self) -> float:
        """The variance."""
        whole = self.a + self.b
        return self.a * self.b / (whole * whole * (whole + 1))

    def after(self, passed: int, scored: int) -> "Belief":
        """The posterior after `passed` of `scored` more rollouts."""
        return Belief(self.a + passed, self.b + scored - passed)

    def power(self, count: int) -> float:
        """Probability that the next `count` rollouts all pass."""
        return math.prod((self.a + i) / (self.a + self.b + i) for i in range(count))

    def chance(self, passed: int, count: int) -> float:
        """Probability that exactly `passed` of the next `count` rollouts pass."""
        logs = (math.lgamma(x) for x in (self.a + passed, self.b + count - passed, self.a + self.b))
        scale = (math.lgamma(x) for x in (self.a + self.b + count, self.a, self.b))
        return math.comb(count, passed) * math.exp(sum(logs) - sum(scale))


UNKNOWN = Belief()


@dataclass(frozen=True, slots=True)
class Masses:
    """Mass of a distribution in each region."""

    below: float
    inside: float
    above: float

    @property
    def likeliest(self) -> Region:
        """The region with the most mass; the band in a tie."""
        return max((Region.INSIDE, Region.BELOW, Region.ABOVE), key=self.of)

    def of(self, region: Region) -> float:
        """The mass in one region."""
        return {Region.BELOW: self.below, Region.INSIDE: self.inside, Region.ABOVE: self.above}[region]


@lru_cache(maxsize=1 << 16)
def masses(rule: Rule, belief: Belief) -> Masses:
    """Mass of a distribution below the band, inside and above."""
    below = beta_cdf(rule.observed(rule.low), belief.a, belief.b) if rule.low > 0 else 0.0
    not_above = beta_cdf(rule.observed(rule.high), belief.a, belief.b) if rule.high < 1 else 1.0
    return Masses(below, max(0.0, not_above - below), 1 - not_above)


def region_placed(rule: Rule, prior: Belief, passed: int, scored: int) -> Region | None:
    """The region a task is placed in after `passed` of `scored`; None if no region holds enough mass, or before `start`."""
    if scored < rule.start:
        return None
    found = masses(rule, prior.after(passed, scored))
    return found.likeliest if found.of(found.likeliest) >= rule.confidence else None


@lru_cache(maxsize=1 << 16)
def fewest_more(rule: Rule, prior: Belief, passed: int, scored: int) -> int:
    """Minimum number of further rollouts after which a task could be placed, or would reach the cap; 0 if it is or has.

    These can run in parallel without wasting any: checking after each single rollout could not have stopped earlier.
    """
    if scored >= rule.cap or region_placed(rule, prior, passed, scored) is not None:
        return 0
    for more in range(1, rule.cap - scored):
        if any(region_placed(rule, prior, passed + luck, scored + more) is not None for luck in range(more + 1)):
            return more
    return rule.cap - scored
