"""Algorithms: from groups of graded rollouts to per-token losses (component, signal, weight).

Each is a frozen record with one pure function, so a recipe reads like a paper's table of settings and can be stored. The trainer
sums the losses and does not depend on the algorithm.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol, runtime_checkable

import numpy as np

from sandlot.train.algorithms.advantages import (
    centred,
    generalised,
    leave_one_out,
    relative,
    returns_to_go,
    standardised,
    untouched,
    whitened,
)
from sandlot.train.algorithms.losses import Clip, Component, CrossEntropy, Entropy, Kl, Value
from sandlot.train.algorithms.preferences import Dpo
from sandlot.train.algorithms.token_weights import Aggregate, token_weights
from sandlot.train.algorithms.turn_credit import by_observation, by_place
from sandlot.train.rows import Floats, Group, Member, Row

Values = Callable[[Row], Floats]
"""The critic's value before each token of a row."""

_BASELINES = {
    "grpo": standardised,
    "dr_grpo": centred,
    "rloo": leave_one_out,
    "max_rl": relative,
    "none": untouched,
}


@dataclass(frozen=True, slots=True)
class TokenLoss:
    """One loss on the tokens of a row."""

    component: Component
    signal: Floats
    weight: Floats


@dataclass(frozen=True, slots=True)
class TrainingRow:
    """A row with its losses."""

    row: Row
    streams: tuple[TokenLoss, ...]
    partner: int | None = None
    """In a pair: the number of the other row within its group."""


class Algorithm(Protocol):
    """A function from groups to training rows; the rows of one group stay together."""

    def __call__(self, groups: Sequence[Group], values: Values | None = None) -> list[list[TrainingRow]]:
        """One list of rows for each group that is trained on."""
        ...


@runtime_checkable
class _Choosing(Protocol):
    """An algorithm that decides by itself which groups it learns from."""

    def teaches(self, group: Group) -> bool:
        """True if it learns something from the group."""
        ...


def teaches(algorithm: Algorithm, group: Group) -> bool:
    """True if an algorithm learns from a group. Default: if the rewards of its members differ."""
    return algorithm.teaches(group) if isinstance(algorithm, _Choosing) else group.informative


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyGradient:
    """GRPO and its relatives: a baseline within the group, a policy loss, and if wanted KL and entropy terms."""

    baseline: Literal["grpo", "dr_grpo", "rloo", "max_rl", "none"] = "grpo"
    whiten: bool = False
    """Normalise the batch's advantages to mean 0 and deviation 1: REINFORCE++, or with `dr_grpo` its variant with a baseline."""
    loss: Component = field(default_factory=Clip)
    aggregate: Aggregate = "token"
    length: int = 1024
    """The length that aggregate `constant` divides by."""
    kl: float = 0.0
    kl_kind: Literal["k1", "k2", "k3"] = "k3"
    entropy: float = 0.0
    credit: Callable[[Member], Floats] | None = None
    """Turn-level credit: the rewards of a member's turns. Each turn is compared with the same turn of the other members."""
    discount: float = 1.0

    steps: float = 0.0
    """GiGPO: weight of the advantage of a turn among the group's turns after the same observation."""

    def __call__(self, groups: Sequence[Group], values: Values | None = None) -> list[list[TrainingRow]]:  # noqa: ARG002 - it has no critic
        """Rows of the groups whose rewards differ."""
        taught = [group for group in groups if self.teaches(group)]
        rows = [row for group in taught for member in group.members for row in member.rows]
        weights = iter(token_weights(rows, self.aggregate, length=self.length))
        advantages = [self._advantages(group) for group in taught]
        return [
            [
                TrainingRow(row, self._streams(_along(advantage, row), next(weights)))
                for member, advantage in zip(group.members, members, strict=True)
                for row in member.rows
            ]
            for group, members in zip(taught, whitened(advantages) if self.whiten else advantages, strict=True)
        ]

    def teaches(self, group: Group) -> bool:
        """True if the rewards of its members differ; without a baseline, always."""
        return bool(group.members) if self.baseline == "none" else group.informative

    def _advantages(self, group: Group) -> list[Floats]:
        """For each member, one advantage, or one per turn."""
        baseline = _BASELINES[self.baseline]
        whole = baseline(group.rewards)
        if self.steps:
            turns = by_observation(group, baseline, self.discount)
            return [advantage + np.float32(self.steps) * own for advantage, own in zip(whole, turns, strict=True)]
        if self.credit is None:
            return [np.array([advantage], np.float32) for advantage in whole]
        return by_place([returns_to_go(self.credit(member), self.discount) for member in group.members], baseline)

    def _streams(self, signal: Floats, weight: Floats) -> tuple[TokenLoss, ...]:
        streams = [TokenLoss(self.loss, signal, weight)]
        if self.kl:
            streams.append(TokenLoss(Kl(self.kl_kind), signal, weight * np.float32(self.kl)))
        if self.entropy:
            streams.append(TokenLoss(Entropy(), signal, weight * np.float32(self.entropy)))
        return tuple(streams)


def _along(advantages: Floats, row: Row) -> Floats:
    """One advantage for every token, or each turn's advantage for its tokens."""
    if len(advantages) == 1:
        return np.full(len(row), advantages[0], dtype=np.float32)
    return np.where(row.turns >= 0, advantages[row.turns.clip(0)], np.float32(0)).astype(np.float32)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ppo:
    """PPO with a critic: GAE over each row's trained tokens, with the reward at the last one."""

    loss: Component = field(default_factory=Clip)
    value: Value = field(default_factory=Value)
    value_weight: float = 0.5
    discount: float = 1.0
    smoothing: float = 0.95
    aggregate: Aggregate = "token"
    entropy: float = 0.0
    whiten: bool = True
    """Normalise the batch's advantages to mean 0 and deviation 1."""

    def __call__(self, groups: Sequence[Group], values: Values | None = None) -> list[list[TrainingRow]]:
        """Rows of all groups: with a critic, they are not compared with each other."""
        if values is None:
            raise ValueError("PPO needs a critic; build the trainer with `critic=True`")
        found = [
            [(row, *self._along(row, member.reward, values)) for member in group.members for row in member.rows]
            for group in groups
        ]
        flat = [entry for group in found for entry in group]
        weights = iter(token_weights([row for row, _, _ in flat], self.aggregate))
        spread = np.concatenate([advantages[row.trained] for row, advantages, _ in flat]) if flat else np.zeros(1, np.float32)
        shift, scale = (spread.mean(), spread.std() + np.float32(1e-8)) if self.whiten else (np.float32(0), np.float32(1))
        return [
            [self._example(row, (advantages - shift) / scale, returns, next(weights)) for row, advantages, returns in group]
            for group in found
        ]

    def teaches(self, group: Group) -> bool:
        """True if the group has a member."""
        return bool(group.members)

    def _along(self, row: Row, reward: float, values: Values) -> tuple[Floats, Floats]:
        places = np.flatnonzero(row.trained)
        rewards = np.zeros(len(places), np.float32)
        if len(places):
            rewards[-1] = reward
        gained, back = generalised(rewards, values(row)[places], self.discount, self.smoothing)
        advantages, returns = np.zeros(len(row), np.float32), np.zeros(len(row), np.float32)
        advantages[places], returns[places] = gained, back
        return advantages, returns

    def _example(self, row: Row, advantages: Floats, returns: Floats, weight: Floats) -> TrainingRow:
        streams = [
            TokenLoss(self.loss, advantages, weight),
            TokenLoss(self.value, returns, weight * np.float32(self.value_weight)),
        ]
        if self.entropy:
            streams.append(TokenLoss(Entropy(), advantages, weight * np.float32(self.entropy)))
        return TrainingRow(row, tuple(streams))


@dataclass(frozen=True, slots=True, kw_only=True)
class Imitate:
    """SFT on sampled rollouts; with `least`, only on those with at least this reward (rejection sampling)."""

    least: float | None = None
    aggregate: Aggregate = "token"

    def __call__(self, groups: Sequence[Group], values: Values | None = None) -> list[list[TrainingRow]]:  # noqa: ARG002 - it has no critic
        """Rows of the members that are good enough."""
        chosen = [[row for member in group.members if self._good(member) for row in member.rows] for group in groups]
        weights = iter(token_weights([row for rows in chosen for row in rows], self.aggregate))
        return [
            [TrainingRow(row, (TokenLoss(CrossEntropy(), np.ones(len(row), np.float32), next(weights)),)) for row in rows]
            for rows in chosen
            if rows
        ]

    def teaches(self, group: Group) -> bool:
        """True if a member is good enough."""
        return any(self._good(member) for member in group.members)

    def _good(self, member: Member) -> bool:
        return self.least is None or member.reward >= self.least


@dataclass(frozen=True, slots=True, kw_only=True)
class Prefer:
    """DPO and its relatives: the best member of a group against its worst."""

    loss: Component = field(default_factory=Dpo)

    def __call__(self, groups: Sequence[Group], values: Values | None = None) -> list[list[TrainingRow]]:  # noqa: ARG002 - it has no critic
        """One pair for each group whose members differ."""
        pairs = [_best_and_worst(group) for group in groups if group.informative]
        return [[self._side(better, 1.0, 1, len(pairs)), self._side(worse, -1.0, 0, len(pairs))] for better, worse in pairs]

    def _side(self, row: Row, sign: float, partner: int, pairs: int) -> TrainingRow:
        # The pair's loss is on every token of the better row; the weights make it count once.
        weight = row.trained.astype(np.float32) / np.float32(max(1, row.trained.sum()) * pairs)
        return TrainingRow(row, (TokenLoss(self.loss, np.full(len(row), sign, np.float32), weight),), partner)


def _best_and_worst(group: Group) -> tuple[Row, Row]:
    ranked = sorted(group.members, key=lambda member: member.reward)
    return ranked[-1].rows[-1], ranked[0].rows[-1]


def needs_reference(algorithm: Algorithm) -> bool:
    """True if it compares the policy with the initial weights."""
    if isinstance(algorithm, Prefer):
        return "reference" in algorithm.loss.needs
    return isinstance(algorithm, PolicyGradient) and algorithm.kl > 0
