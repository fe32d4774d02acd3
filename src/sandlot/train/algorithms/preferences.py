"""Losses of pairs: a better row against a worse one.

`signal` is +1 on the better row and -1 on the worse; `partner` names the other row of the forest. A pair's loss is on every
token of the better row, and the weights make it count once.
"""

from dataclasses import dataclass
from typing import ClassVar

import torch
import torch.nn.functional as F  # noqa: N812 - the name everyone knows
from torch import Tensor

from sandlot.train.algorithms.losses import Columns, Needs


def _on_the_better(columns: Columns, loss: Tensor) -> Tensor:
    return torch.where(columns.signal > 0, loss[columns.row], torch.zeros_like(columns.logprobs))


def _lead(columns: Columns, gain: Tensor) -> Tensor:
    """How far each row is ahead of its partner."""
    assert columns.partner is not None
    return gain - gain[columns.partner]


def _lead_over_reference(columns: Columns) -> Tensor:
    assert columns.reference is not None
    return _lead(columns, columns.row_sum(columns.logprobs - columns.reference))


@dataclass(frozen=True, slots=True)
class Dpo:
    """DPO: both rows relative to the reference."""

    beta: float = 0.1
    needs: ClassVar[Needs] = frozenset({"reference"})

    def __call__(self, columns: Columns) -> Tensor:
        """`-log sigmoid(beta D)`, D the difference of the rows' sums of `log pi/ref`."""
        return _on_the_better(columns, -F.logsigmoid(self.beta * self.lead(columns)))

    def lead(self, columns: Columns) -> Tensor:
        """D of each row."""
        return _lead_over_reference(columns)


@dataclass(frozen=True, slots=True)
class Ipo:
    """IPO: like DPO, but with a target for the difference, which does not grow without bound."""

    beta: float = 0.1
    needs: ClassVar[Needs] = frozenset({"reference"})

    def __call__(self, columns: Columns) -> Tensor:
        """`(D - 1 / (2 beta))^2`."""
        return _on_the_better(columns, (self.lead(columns) - 1 / (2 * self.beta)).square())

    def lead(self, columns: Columns) -> Tensor:
        """D of each row."""
        return _lead_over_reference(columns)


@dataclass(frozen=True, slots=True)
class SimPo:
    """SimPO: rows by mean log-probability, without a reference, so length does not matter."""

    beta: float = 2.0
    margin: float = 1.0
    needs: ClassVar[Needs] = frozenset()

    def __call__(self, columns: Columns) -> Tensor:
        """`-log sigmoid(beta D - margin)`, D the difference of the rows' means of `log pi`."""
        return _on_the_better(columns, -F.logsigmoid(self.beta * self.lead(columns) - self.margin))

    def lead(self, columns: Columns) -> Tensor:
        """D of each row."""
        return _lead(columns, columns.row_mean(columns.logprobs))


@dataclass(frozen=True, slots=True)
class BradleyTerry:
    """A reward model: the critic's value at a row's last trained token is its score, and the better row's is higher."""

    needs: ClassVar[Needs] = frozenset({"values"})

    def __call__(self, columns: Columns) -> Tensor:
        """`-log sigmoid(D)`, D the difference of the rows' scores."""
        return _on_the_better(columns, -F.logsigmoid(self.lead(columns)))

    def lead(self, columns: Columns) -> Tensor:
        """D of each row."""
        assert columns.values is not None
        last = torch.bincount(columns.row, minlength=columns.rows).cumsum(0) - 1
        return _lead(columns, columns.values[last])
