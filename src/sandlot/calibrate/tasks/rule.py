"""When a task counts as placed: the rule, and what is believed after so many passes.

A task's pass rate is somewhere; what is known of it is a Beta distribution. It is *placed* as soon as one of three regions, below
the band, in it or above it, holds `confidence` of that belief. One rollout more or less is always a fair place to stop, because
the belief does not depend on why counting ended; how often such a rule errs is computed in `rates.py`, never assumed.

A grader that errs shows another rate than the true one, q = p (1 - FN) + (1 - p) FP. Beliefs are about what is shown, so the
edges of the band are moved there, and rates are reported both ways (Rogan and Gladen).
"""

import math
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache

import msgspec

from sandlot.core.errors import ConfigError
from sandlot.core.stats.intervals import beta_cdf


class Region(StrEnum):
    """Where a pass rate lies against the band."""

    BELOW = "below"
    INSIDE = "inside"
    ABOVE = "above"


class Rule(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The band, and how sure one has to be."""

    low: float = 0.2
    """The lower edge of the band: below it a task is too hard."""
    high: float = 0.5
    """The upper edge: above it a task is too easy."""
    confidence: float = 0.9
    """The share of belief one region must hold."""
    start: int = 4
    """Rollouts of every task before anything is decided."""
    cap: int = 32
    """Rollouts after which a task that is not placed is called borderline."""
    threshold: float = 1.0
    """A rollout passes if its reward is at least this."""
    flat: float = 0.05
    """Rewards of a task that spread no more than this, as a share of their range, teach nothing."""
    false_positive: float = 0.0
    """How often the grader passes what is wrong."""
    false_negative: float = 0.0
    """How often it fails what is right."""

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
                "two shares that make less than 1: at 1 and above it tells nothing"
            )
        if wrong:
            raise ConfigError(wrong)

    def observed(self, rate: float) -> float:
        """The pass rate that the grader shows where the true one is `rate`."""
        return rate * (1 - self.false_negative) + (1 - rate) * self.false_positive

    def corrected(self, shown: float) -> float:
        """The true pass rate behind one that is shown, kept between 0 and 1."""
        true = (shown - self.false_positive) / (1 - self.false_negative - self.false_positive)
        return min(1.0, max(0.0, true))

    def region(self, rate: float) -> Region:
        """Where a true pass rate lies; the edges belong to the band."""
        return Region.BELOW if rate < self.low else Region.ABOVE if rate > self.high else Region.INSIDE


@dataclass(frozen=True, slots=True)
class Belief:
    """Beta(a, b): what is thought of a pass rate. Jeffreys' prior, which knows nothing, unless told otherwise."""

    a: float = 0.5
    b: float = 0.5

    @property
    def mean(self) -> float:
        """The rate that is expected."""
        return self.a / (self.a + self.b)

    @property
    def variance(self) -> float:
        """How unsure that is."""
        whole = self.a + self.b
        return self.a * self.b / (whole * whole * (whole + 1))

    def after(self, passed: int, scored: int) -> "Belief":
        """The belief with `passed` of `scored` more seen."""
        return Belief(self.a + passed, self.b + scored - passed)

    def power(self, count: int) -> float:
        """The chance that the next `count` rollouts all pass."""
        return math.prod((self.a + i) / (self.a + self.b + i) for i in range(count))

    def chance(self, passed: int, count: int) -> float:
        """The chance that exactly `passed` of the next `count` rollouts pass."""
        logs = (math.lgamma(x) for x in (self.a + passed, self.b + count - passed, self.a + self.b))
        scale = (math.lgamma(x) for x in (self.a + self.b + count, self.a, self.b))
        return math.comb(count, passed) * math.exp(sum(logs) - sum(scale))


UNKNOWN = Belief()


@dataclass(frozen=True, slots=True)
class Masses:
    """How much of a belief lies in each region."""

    below: float
    inside: float
    above: float

    @property
    def likeliest(self) -> Region:
        """The region that holds most; the band, if it is a tie."""
        return max((Region.INSIDE, Region.BELOW, Region.ABOVE), key=self.of)

    def of(self, region: Region) -> float:
        """The share in one region."""
        return {Region.BELOW: self.below, Region.INSIDE: self.inside, Region.ABOVE: self.above}[region]


@lru_cache(maxsize=1 << 16)
def masses(rule: Rule, belief: Belief) -> Masses:
    """How much of a belief lies below the band, in it and above it."""
    below = beta_cdf(rule.observed(rule.low), belief.a, belief.b) if rule.low > 0 else 0.0
    not_above = beta_cdf(rule.observed(rule.high), belief.a, belief.b) if rule.high < 1 else 1.0
    return Masses(below, max(0.0, not_above - below), 1 - not_above)


def region_placed(rule: Rule, prior: Belief, passed: int, scored: int) -> Region | None:
    """The region a task is placed in after `passed` of `scored`; None while no region holds enough, or too little was seen."""
    if scored < rule.start:
        return None
    found = masses(rule, prior.after(passed, scored))
    return found.likeliest if found.of(found.likeliest) >= rule.confidence else None


@lru_cache(maxsize=1 << 16)
def fewest_more(rule: Rule, prior: Belief, passed: int, scored: int) -> int:
    """The fewest further rollouts after which a task could be placed, or would reach the cap; 0 if it is or has.

    So many may run side by side, and still nothing is taken that a look after every single rollout would have saved.
    """
    if scored >= rule.cap or region_placed(rule, prior, passed, scored) is not None:
        return 0
    for more in range(1, rule.cap - scored):
        if any(region_placed(rule, prior, passed + luck, scored + more) is not None for luck in range(more + 1)):
            return more
    return rule.cap - scored
