"""Losses: small pure functions from log-probabilities and a signal to one loss per token.

The trainer sums `weight * loss` over all tokens and losses. A component is a frozen record, so that it can be stored with the
recipe, and it names the further columns it needs. Notation: pi is the policy in training, `old` its
weights at the batch's start, mu the policy that sampled. Gradients flow through `logprobs`, `entropy` and `values` only.
"""

import math
from dataclasses import dataclass, field, replace
from typing import ClassVar, Literal, Protocol, runtime_checkable

import torch
from torch import Tensor

from sandlot.core.errors import ConfigError


@dataclass(frozen=True, slots=True)
class Columns:
    """The tokens of one stream in one forest, all rows joined: `[tokens]` each."""

    logprobs: Tensor
    """Under pi, with gradient."""
    old: Tensor
    behaviour: Tensor
    """Under mu."""
    signal: Tensor
    """The algorithm's signal for each token: an advantage, a return, or a side of a pair."""
    row: Tensor
    """The row of each token, from 0."""
    rows: int
    partner: Tensor | None = None
    """`[rows]`: for pairs, the other row; -1 for none."""
    reference: Tensor | None = None
    entropy: Tensor | None = None
    values: Tensor | None = None
    old_values: Tensor | None = None

    def row_sum(self, x: Tensor) -> Tensor:
        """Sums over each row's tokens."""
        return torch.zeros(self.rows, dtype=x.dtype, device=x.device).index_add(0, self.row, x)

    def row_mean(self, x: Tensor) -> Tensor:
        """Means over each row's tokens."""
        return self.row_sum(x) / self.row_sum(torch.ones_like(x)).clamp(min=1)


Needs = frozenset[Literal["reference", "entropy", "values"]]


class Component(Protocol):
    """One loss per token."""

    needs: ClassVar[Needs]

    def __call__(self, columns: Columns) -> Tensor:
        """`[tokens]`, to be minimised."""
        ...


@runtime_checkable
class Bounded(Protocol):
    """A policy loss that bounds its ratio."""

    def held_back(self, columns: Columns) -> Tensor:
        """`[tokens]`, true where the bound is active."""
        ...


@runtime_checkable
class Ranking(Protocol):
    """A loss of pairs."""

    def lead(self, columns: Columns) -> Tensor:
        """`[rows]`: how far each row is ahead of its partner."""
        ...


# -- off-policy correction -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Correction:
    """Importance weight of each token for being sampled by mu instead of `old`: truncated, or masked outside its bounds."""

    kind: Literal["none", "truncate", "mask"] = "none"
    level: Literal["token", "sequence", "geometric"] = "token"
    low: float = 0.5
    high: float = 2.0

    def __call__(self, columns: Columns) -> Tensor | float:
        """One factor per token, without gradient."""
        if self.kind == "none":
            return 1.0
        log_ratio = (columns.old - columns.behaviour).detach()
        if self.level == "sequence":
            log_ratio = columns.row_sum(log_ratio)[columns.row]
        elif self.level == "geometric":
            log_ratio = columns.row_mean(log_ratio)[columns.row]
        ratio = log_ratio.clamp(-30, 30).exp()
        if self.kind == "truncate":
            return ratio.clamp(max=self.high)
        return ratio * ((ratio >= self.low) & (ratio <= self.high))


# -- policy losses -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Clip:
    """PPO's clipped ratio; `high` above `low` is clip-higher, `dual` bounds the loss of tokens with a negative advantage."""

    low: float = 0.2
    high: float = 0.2
    dual: float | None = None
    correction: Correction = field(default_factory=Correction)
    against: Literal["old", "behaviour"] = "old"
    """The policy below the fraction. With staleness it must be `behaviour` (`for_staleness` sets it): `old` is then the policy
    itself at every update of one minibatch, so the ratio is 1, nothing is clipped, and the same tokens are pushed again in each
    of the next versions."""
    needs: ClassVar[Needs] = frozenset()

    def __call__(self, columns: Columns) -> Tensor:
        """`-min(r A, clip(r) A)`, times the correction."""
        ratio = self._ratio(columns)
        loss = _clipped(ratio, columns.signal, self.low, self.high)
        if self.dual is not None:
            loss = torch.where(columns.signal < 0, loss.clamp(max=1.0 * -self.dual * columns.signal), loss)
        return loss * self.correction(columns)

    def for_staleness(self, versions: int) -> "Clip":
        """The same clip for tokens that are up to so many versions old: against the policy that sampled, with wider bounds.

        A token may move as far as the root of `versions` + 1 updates in turn, as far as so many steps of a random walk lead. With
        the bounds of a single one, tokens that earlier versions have moved have no gradient any more, and learning is slower;
        with those of all of them, it is worse where the learning rate is large.
        """
        if versions < 0:
            raise ConfigError(f"staleness is {versions} versions; give the recipe's `staleness`, 0 or more")
        updates = math.sqrt(versions + 1)
        low, high = 1 - max(0.0, 1 - self.low) ** updates, (1 + self.high) ** updates - 1
        return replace(self, low=low, high=high, against="behaviour") if versions else self

    def held_back(self, columns: Columns) -> Tensor:
        """Where the ratio has left its bounds on the side its advantage pushes to."""
        return _outside(self._ratio(columns), columns.signal, self.low, self.high)

    def _ratio(self, columns: Columns) -> Tensor:
        return (columns.logprobs - (columns.old if self.against == "old" else columns.behaviour)).exp()


@dataclass(frozen=True, slots=True)
class Gspo:
    """The ratio of the whole row, as the mean of its logarithms; a token's own gradient within it."""

    low: float = 3e-4
    high: float = 4e-4
    correction: Correction = field(default_factory=Correction)
    needs: ClassVar[Needs] = frozenset()

    def __call__(self, columns: Columns) -> Tensor:
        """`-min(s A, clip(s) A)` with `s = sg(s_row) pi / sg(pi)`."""
        whole = columns.row_mean((columns.logprobs - columns.old).detach())[columns.row].exp()
        ratio = whole * (columns.logprobs - columns.logprobs.detach()).exp()
        return _clipped(ratio, columns.signal, self.low, self.high) * self.correction(columns)

    def held_back(self, columns: Columns) -> Tensor:
        """Tokens of rows whose ratio is outside its bounds."""
        whole = columns.row_mean((columns.logprobs - columns.old).detach())[columns.row].exp()
        return _outside(whole, columns.signal, self.low, self.high)


@dataclass(frozen=True, slots=True)
class Cispo:
    """The ratio is a bounded weight without gradient, so every token keeps its gradient."""

    high: float = 5.0
    correction: Correction = field(default_factory=Correction)
    needs: ClassVar[Needs] = frozenset()

    def __call__(self, columns: Columns) -> Tensor:
        """`-sg(min(r, high)) A log pi`."""
        ratio = (columns.logprobs - columns.old).exp().detach().clamp(max=self.high)
        return -ratio * columns.signal * columns.logprobs * self.correction(columns)

    def held_back(self, columns: Columns) -> Tensor:
        """Where the weight is at its bound."""
        return (columns.logprobs - columns.old).exp() > self.high


@dataclass(frozen=True, slots=True)
class Reinforce:
    """The plain policy gradient, with the off-policy correction."""

    correction: Correction = field(default_factory=Correction)
    needs: ClassVar[Needs] = frozenset()

    def __call__(self, columns: Columns) -> Tensor:
        """`-A log pi`."""
        return -columns.signal * columns.logprobs * self.correction(columns)


@dataclass(frozen=True, slots=True)
class Sapo:
    """A soft gate instead of a clip: the weight of a token falls smoothly with the distance of its ratio from 1."""

    up: float = 1.0
    down: float = 1.05
    """Steepness of the gate for tokens with positive and with negative advantage."""
    correction: Correction = field(default_factory=Correction)
    needs: ClassVar[Needs] = frozenset()

    def __call__(self, columns: Columns) -> Tensor:
        """`-(4 / t) sigmoid(t (r - 1)) A`."""
        steep = torch.full_like(columns.logprobs, self.down).masked_fill(columns.signal > 0, self.up)
        gate = torch.sigmoid(steep * ((columns.logprobs - columns.old).exp() - 1)) * 4 / steep
        return -gate * columns.signal * self.correction(columns)


@dataclass(frozen=True, slots=True)
class Dppo:
    """Bounds how far a token's probability, not its ratio, may move from the sampler's; with a squared penalty."""

    low: float = 0.2
    high: float = 0.2
    pull: float = 1e-3
    needs: ClassVar[Needs] = frozenset()

    def __call__(self, columns: Columns) -> Tensor:
        """`-M A pi/mu + pull (log pi/mu)^2`."""
        apart = columns.logprobs - columns.behaviour
        kept = ~self.held_back(columns)
        return -columns.signal * kept * apart.exp() + self.pull * apart.square()

    def held_back(self, columns: Columns) -> Tensor:
        """Where the probability has moved too far in the direction of its advantage."""
        moved = columns.logprobs.detach().exp() - columns.behaviour.exp()
        return ((columns.signal > 0) & (moved > self.high)) | ((columns.signal < 0) & (moved < -self.low))


@dataclass(frozen=True, slots=True)
class OffPolicyMask:
    """Another loss, without rows of negative advantage that have become unlikely under the policy."""

    loss: Component
    most: float = 0.1
    """Largest mean of `log mu - log pi` over a row."""
    needs: ClassVar[Needs] = frozenset()

    def __call__(self, columns: Columns) -> Tensor:
        """The loss, or 0 on all tokens of such a row."""
        return self.loss(columns) * ~self.held_back(columns)

    def held_back(self, columns: Columns) -> Tensor:
        """Tokens of rows that are left out."""
        behind = columns.row_mean((columns.behaviour - columns.logprobs).detach())[columns.row]
        return (columns.signal < 0) & (behind > self.most)


def corrects_staleness(loss: Component) -> bool:
    """True if a policy loss takes into account that older weights sampled its tokens. A loss of another kind is not known."""
    if isinstance(loss, Clip) and loss.against == "behaviour":
        return True
    return not isinstance(loss, Clip | Gspo | Cispo | Reinforce | Sapo) or loss.correction.kind != "none"


def _clipped(ratio: Tensor, advantage: Tensor, low: float, high: float) -> Tensor:
    return -torch.minimum(ratio * advantage, ratio.clamp(1 - low, 1 + high) * advantage)


def _outside(ratio: Tensor, advantage: Tensor, low: float, high: float) -> Tensor:
    return ((advantage > 0) & (ratio > 1 + high)) | ((advantage < 0) & (ratio < 1 - low))


# -- further losses --------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Kl:
    """Distance to a reference. `k2` has the gradient of the reverse KL on policy; `k3` has its value with k2's gradient."""

    kind: Literal["k1", "k2", "k3"] = "k3"
    needs: ClassVar[Needs] = frozenset({"reference"})

    def __call__(self, columns: Columns) -> Tensor:
        """The estimate for each token."""
        assert columns.reference is not None
        distance = columns.logprobs - columns.reference
        if self.kind == "k1":
            return distance
        squared = 0.5 * distance.square()
        if self.kind == "k2":
            return squared
        value = torch.expm1(-distance) + distance
        return squared + (value - squared).detach()


@dataclass(frozen=True, slots=True)
class Entropy:
    """The negative entropy of the distribution that the token was sampled from."""

    needs: ClassVar[Needs] = frozenset({"entropy"})

    def __call__(self, columns: Columns) -> Tensor:
        """`-H`."""
        assert columns.entropy is not None
        return -columns.entropy


@dataclass(frozen=True, slots=True)
class CrossEntropy:
    """Cross-entropy, weighted by the signal."""

    needs: ClassVar[Needs] = frozenset()

    def __call__(self, columns: Columns) -> Tensor:
        """`-signal log pi`."""
        return -columns.signal * columns.logprobs


@dataclass(frozen=True, slots=True)
class Value:
    """The critic's squared error to the return in `signal`; the value moves at most `clip` per update."""

    clip: float | None = 0.2
    needs: ClassVar[Needs] = frozenset({"values"})

    def __call__(self, columns: Columns) -> Tensor:
        """`max((V - R)^2, (clipped V - R)^2) / 2`."""
        assert columns.values is not None
        error = (columns.values - columns.signal).square()
        if self.clip is None or columns.old_values is None:
            return 0.5 * error
        near = columns.old_values + (columns.values - columns.old_values).clamp(-self.clip, self.clip)
        return 0.5 * torch.maximum(error, (near - columns.signal).square())
