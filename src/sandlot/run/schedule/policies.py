"""Which waiting rollout is served next.

A policy gives each waiting job a key; the smallest key is served first. It may look at the job, at the estimates of lengths and
at nothing else, so it can serve live runs as well as simulations. `chunk` divides rollouts: after this many tokens a job goes
back to the queue and others may go first. Small chunks cost cache moves; large ones let the tail grow.

| policy | order |
|---|---|
| `Fifo` | the order of submission |
| `LeastAttained` | fewest tokens sampled so far first |
| `GroupContext` | one rollout of each group first, then groups with the longest finished rollout (the rule of Seer) |
| `LongestRemaining` | longest expected remaining length first, from the lengths of finished siblings |
| `Adaptive` | between `LeastAttained` and longest expected length, by how alike siblings are; the default |
| `KnownLengths` | longest true remaining length first: what perfect foresight would give |
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from sandlot.run.schedule.job import RolloutJob
from sandlot.run.schedule.lengths import Lengths

Key = tuple[float, ...]

DEFAULT_CHUNK = 2048
"""Tokens. With half a chunk reserved, smaller ones gain less than they cost in moves (`make bench NAME=schedule`)."""


class SchedulingPolicy(Protocol):
    """Orders the jobs that wait."""

    @property
    def chunk(self) -> int | None:
        """Tokens after which a job goes back to the queue; None to let each run to its end."""
        ...

    @property
    def learns(self) -> bool:
        """True if a rollout that ends changes the keys of others."""
        ...

    def key(self, job: RolloutJob, lengths: Lengths) -> Key:
        """The job with the smallest key is served first."""
        ...


@dataclass(frozen=True, slots=True)
class Fifo:
    """The order of submission."""

    chunk: int | None = None
    learns: bool = False

    def key(self, job: RolloutJob, lengths: Lengths) -> Key:
        """Its place in the order of submission."""
        del lengths
        return (job.index,)


@dataclass(frozen=True, slots=True)
class LeastAttained:
    """Fewest tokens first: short rollouts leave, and all long ones are found early and run side by side."""

    chunk: int | None = DEFAULT_CHUNK
    learns: bool = False

    def key(self, job: RolloutJob, lengths: Lengths) -> Key:
        """What it has attained."""
        del lengths
        return (job.attained, job.index)


@dataclass(frozen=True, slots=True)
class GroupContext:
    """One probe of each group first, shortest so far first; then the group with the longest finished rollout (Seer's rule)."""

    group_size: int
    chunk: int | None = DEFAULT_CHUNK
    learns: bool = True

    def key(self, job: RolloutJob, lengths: Lengths) -> Key:
        """Probes, then groups of unknown length, then the longest."""
        if job.index % self.group_size == 0:
            return (0.0, job.attained, job.index)
        longest = lengths.longest_of(job.group)
        return (1.0, -math.inf if longest is None else -longest, job.index)


@dataclass(frozen=True, slots=True)
class LongestRemaining:
    """Longest expected remaining length first: the mean of a log-normal length above what was already attained."""

    chunk: int | None = DEFAULT_CHUNK
    learns: bool = True

    def key(self, job: RolloutJob, lengths: Lengths) -> Key:
        """Minus the expected rest; a job of which nothing is known comes first."""
        mean, within = lengths.mean_log_of(job.group), lengths.within
        if mean is None or within is None:
            return (-math.inf, job.attained, job.index)
        return (-expected_rest(mean, math.sqrt(within), job.attained), job.index)


@dataclass(frozen=True, slots=True)
class Adaptive:
    """The default: `attained - reliability * expected length`.

    With reliability 0 this is least attained service; with 1, longest expected remaining first. The reliability is measured on
    rollouts that have ended, so a workload whose siblings differ is not scheduled by its siblings. Against `LeastAttained` it
    moves about half the cache where siblings are alike, because a long group keeps its place.
    """

    chunk: int | None = DEFAULT_CHUNK
    learns: bool = True

    def key(self, job: RolloutJob, lengths: Lengths) -> Key:
        """What it has attained, less what its siblings let expect."""
        mean, within = lengths.mean_log_of(job.group), lengths.within
        if mean is None or within is None:
            return (job.attained, job.index)
        return (job.attained - lengths.reliability * math.exp(mean + within / 2), job.index)


@dataclass(frozen=True, slots=True)
class KnownLengths:
    """Longest true remaining length first. Only a simulation knows the lengths."""

    lengths: Sequence[int]
    """By order of submission."""
    chunk: int | None = DEFAULT_CHUNK
    learns: bool = False

    def key(self, job: RolloutJob, lengths: Lengths) -> Key:
        """Minus what remains."""
        del lengths
        return (job.attained - self.lengths[job.index], job.index)


def expected_rest(mean: float, deviation: float, attained: int) -> float:
    """The mean of what remains of a log-normal length that is known to exceed `attained`."""
    whole = math.exp(mean + deviation**2 / 2)
    if attained < 1 or deviation <= 0.0:
        return max(0.0, whole - attained)
    score = (math.log(attained) - mean) / deviation
    beyond = _tail(score)
    if beyond < 1e-12:  # both tails vanish; their ratio tends to `attained * (1 + deviation / score)`
        return attained * deviation / score
    return whole * _tail(score - deviation) / beyond - attained


def _tail(score: float) -> float:
    """The share of a normal distribution above a standard score."""
    return math.erfc(score / math.sqrt(2)) / 2
