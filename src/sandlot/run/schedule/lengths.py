"""Estimates of how long rollouts get, from those that have ended.

Log lengths are modelled as group mean plus deviation: `log L = m + a_g + e`, with variances `between` (of `a_g`) and `within`
(of `e`). The share `reliability = between / (between + within)` says how much a finished sibling tells about a rollout: near 1,
siblings are alike; near 0, they tell nothing.

Rollouts that end first are shorter than the average, so all estimates start too low and rise. `prior` removes most of that: the
estimates of the previous step of a training, or of an earlier run of the same tasks.
"""

import math
from dataclasses import dataclass, field

_PRIOR_WEIGHT = 4.0
"""A prior counts as much as this many groups."""


@dataclass(frozen=True, slots=True)
class LengthPrior:
    """What is known before the first rollout has ended."""

    mean_log: float
    between: float
    within: float


@dataclass(slots=True)
class _GroupSums:
    count: int = 0
    total: float = 0.0
    squares: float = 0.0
    longest: int = 0


@dataclass(slots=True)
class Lengths:
    """Running sums over the rollouts that have ended; every estimate takes constant time."""

    prior: LengthPrior | None = None
    _groups: dict[int, _GroupSums] = field(default_factory=dict[int, _GroupSums])
    _count: int = 0
    _total: float = 0.0
    _within_squares: float = 0.0
    """Sum over groups of squared deviations from the group's mean."""
    _mean_squares: float = 0.0
    """Sum over groups of the squared group mean."""
    _means: float = 0.0
    _inverse_counts: float = 0.0
    longest: int = 0
    """Tokens of the longest rollout that has ended."""

    def add(self, group: int, length: int) -> None:
        """A rollout of this group has ended after `length` tokens."""
        value = math.log(max(length, 1))
        sums = self._groups.setdefault(group, _GroupSums())
        self._take_out(sums)
        sums.count, sums.total, sums.squares = sums.count + 1, sums.total + value, sums.squares + value * value
        sums.longest = max(sums.longest, length)
        self._put_in(sums)
        self._count, self._total = self._count + 1, self._total + value
        self.longest = max(self.longest, length)

    def _take_out(self, sums: _GroupSums) -> None:
        if sums.count:
            self._change(sums, -1.0)

    def _put_in(self, sums: _GroupSums) -> None:
        self._change(sums, 1.0)

    def _change(self, sums: _GroupSums, sign: float) -> None:
        mean = sums.total / sums.count
        self._within_squares += sign * max(0.0, sums.squares - sums.count * mean * mean)
        self._mean_squares += sign * mean * mean
        self._means += sign * mean
        self._inverse_counts += sign / sums.count

    def longest_of(self, group: int) -> int | None:
        """Tokens of the longest rollout of a group that has ended; None if none has."""
        sums = self._groups.get(group)
        return sums.longest if sums is not None else None

    @property
    def within(self) -> float | None:
        """The variance of log lengths inside a group; None if no two of a group have ended."""
        spare = self._count - len(self._groups)
        known = self._within_squares / spare if spare > 0 else None
        if self.prior is None:
            return known
        if known is None:
            return self.prior.within
        return (self.prior.within * _PRIOR_WEIGHT + known * spare) / (_PRIOR_WEIGHT + spare)

    @property
    def between(self) -> float | None:
        """The variance of group means, without what the few rollouts of each add to it."""
        groups = len(self._groups)
        within = self.within
        if groups < 2 or within is None:
            return self.prior.between if self.prior is not None else None
        mean = self._means / groups
        spread = max(0.0, self._mean_squares - groups * mean * mean) / (groups - 1)
        known = max(0.0, spread - within * self._inverse_counts / groups)
        if self.prior is None:
            return known
        return (self.prior.between * _PRIOR_WEIGHT + known * groups) / (_PRIOR_WEIGHT + groups)

    @property
    def reliability(self) -> float:
        """How much a sibling's length tells, from 0 to 1; 0 while it is not known."""
        between, within = self.between, self.within
        if between is None or within is None or between + within <= 0.0:
            return 0.0
        return between / (between + within)

    def mean_log_of(self, group: int) -> float | None:
        """The expected log length of a group: its own mean, drawn towards the mean of all by how little is known of it."""
        groups = len(self._groups)
        if self.prior is not None:
            overall = (self.prior.mean_log * _PRIOR_WEIGHT + self._means) / (_PRIOR_WEIGHT + groups)
        elif groups:
            overall = self._means / groups
        else:
            return None
        sums = self._groups.get(group)
        between, within = self.between, self.within
        if sums is None or between is None or within is None:
            return overall
        share = between / (between + within / sums.count) if between > 0.0 else 0.0
        return overall + share * (sums.total / sums.count - overall)
