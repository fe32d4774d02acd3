"""Reward shaping before rewards are compared: penalties for length. Reports show the reward without it.

Shaped(algorithm=PolicyGradient(), shape=Overlong(most=1024, buffer=256))
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from sandlot.train.algorithms.algorithms import Algorithm, TrainingRow, Values, teaches
from sandlot.train.rows import Floats, Group, Member

Shape = Callable[[Group], Floats]
"""A function that returns what is added to each member's reward."""


def _lengths(group: Group) -> Floats:
    """Trained tokens of each member."""
    return np.array([_length(member) for member in group.members], np.float32)


def _length(member: Member) -> int:
    return sum(int(row.trained.sum()) for row in member.rows)


@dataclass(frozen=True, slots=True, kw_only=True)
class Overlong:
    """DAPO: nothing up to `most - buffer` tokens, from there on down to -1 at `most`."""

    most: int
    buffer: int

    def __call__(self, group: Group) -> Floats:
        """Between -1 and 0."""
        return np.clip((self.most - self.buffer - _lengths(group)) / np.float32(self.buffer), -1, 0).astype(np.float32)


@dataclass(frozen=True, slots=True, kw_only=True)
class Shorter:
    """Kimi: within a group, from 1/2 for the shortest to -1/2 for the longest; wrong answers get no bonus for being short."""

    weight: float = 1.0
    right: float = 1.0
    """Rewards of at least this much count as right."""

    def __call__(self, group: Group) -> Floats:
        """Between `-weight / 2` and `weight / 2`; 0 if all have the same length."""
        long = _lengths(group)
        span = float(np.ptp(long)) if len(long) else 0.0
        if not span:
            return np.zeros_like(long)
        bonus = np.float32(0.5) - (long - long.min()) / np.float32(span)
        right = group.rewards >= np.float32(self.right)
        return (bonus * right + np.minimum(bonus, np.float32(0)) * ~right) * np.float32(self.weight)


@dataclass(frozen=True, slots=True, kw_only=True)
class Shaped:
    """Another algorithm, with shaped rewards."""

    algorithm: Algorithm
    shape: Shape

    def __call__(self, groups: Sequence[Group], values: Values | None = None) -> list[list[TrainingRow]]:
        """The rows of the algorithm."""
        return self.algorithm([self._shaped(group) for group in groups], values)

    def teaches(self, group: Group) -> bool:
        """True if the algorithm learns from the shaped group."""
        return teaches(self.algorithm, self._shaped(group))

    def _shaped(self, group: Group) -> Group:
        added = self.shape(group)
        members = tuple(
            replace(member, reward=member.reward + float(more)) for member, more in zip(group.members, added, strict=True)
        )
        return replace(group, members=members)
