"""Losses of pairs: the better row against the worse.

`signal` is +1 on the better row and -1 on the worse; `partner` names the other row of the forest. A pair's loss stands on every
token of the better row, and their weights make it count once.
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


@dataclass(frozen=True, slots=True)
class Dpo:
    """Both rows measured from the reference."""

    beta: float = 0.1
    needs: ClassVar[Needs] = frozenset({"reference"})

    def __call__(self, columns: Columns) -> Tensor:
        """`-log sigmoid(beta D)`, D the difference of the rows' sums of `log pi/ref`."""
        assert columns.reference is not None
        lead = _lead(columns, columns.row_sum(columns.logprobs - columns.reference))
        return _on_the_better(columns, -F.logsigmoid(self.beta * lead))


@dataclass(frozen=True, slots=True)
class Ipo:
    """As DPO, with a distance to keep in place of one that grows without end."""

    beta: float = 0.1
    needs: ClassVar[Needs] = frozenset({"reference"})

    def __call__(self, columns: Columns) -> Tensor:
        """`(D - 1 / (2 beta))^2`."""
        assert columns.reference is not None
        lead = _lead(columns, columns.row_sum(columns.logprobs - columns.reference))
        return _on_the_better(columns, (lead - 1 / (2 * self.beta)).square())


@dataclass(frozen=True, slots=True)
class SimPo:
    """Rows by their mean log-probability, without a reference: long ones have no advantage."""

    beta: float = 2.0
    margin: float = 1.0
    needs: ClassVar[Needs] = frozenset()

    def __call__(self, columns: Columns) -> Tensor:
        """`-log sigmoid(beta D - margin)`, D the difference of the rows' means of `log pi`."""
        lead = _lead(columns, columns.row_mean(columns.logprobs))
        return _on_the_better(columns, -F.logsigmoid(self.beta * lead - self.margin))
