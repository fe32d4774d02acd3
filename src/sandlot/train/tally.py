"""The figures of an update, summed over its forests and over all processes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from sandlot.train.algorithms.algorithms import TrainingRow
from sandlot.train.parallel.ranks import ALONE, Ranks


@dataclass(frozen=True, slots=True)
class Update:
    """The figures of one update."""

    loss: float
    norm: float
    """Norm of the gradient before clipping."""
    tokens: int
    """Trained tokens of all rows."""
    computed: int
    """Tokens computed: shared prefixes count once."""
    flat: int
    """Tokens of all rows, without sharing."""
    seconds: float
    figures: Mapping[str, float] = field(default_factory=dict[str, float])
    """Means over trained tokens: `kl_behaviour`, `clipped` (share of tokens at a bound), `entropy` (exact if a component needs
    it, else estimated from the sampled tokens), and `ratio_max`."""


class Tally:
    """The sums of one update over the forests of this process."""

    def __init__(self) -> None:
        self.loss = self.norm = self.clipped = 0.0
        self.computed = 0
        self._sums: dict[str, float] = {"tokens": 0.0, "kl_behaviour": 0.0, "entropy": 0.0}
        self._ratio_max = 0.0

    def add(self, columns: Mapping[str, Any], computed: int) -> None:
        """Count one forest."""
        self.computed += computed
        apart = (columns["old"] - columns["behaviour"]).double()
        self._sums["tokens"] += len(apart)
        if not len(apart):
            return
        self._sums["kl_behaviour"] += float((torch.expm1(apart) - apart).sum())
        self._ratio_max = max(self._ratio_max, float(apart.abs().max().exp()))
        spread = columns["entropy"] if columns["entropy"] is not None else -columns["old"]
        self._sums["entropy"] += float(spread.detach().sum())

    def update(self, groups: Sequence[Sequence[TrainingRow]], seconds: float, ranks: Ranks = ALONE) -> Update:
        """The figures over all processes; the same on each."""
        loss, clipped, computed, tokens, kl, entropy = ranks.sum(
            [self.loss, self.clipped, float(self.computed), *self._sums.values()]
        )
        count = max(1.0, tokens)
        return Update(
            loss=loss,
            norm=self.norm,
            tokens=int(tokens),
            computed=int(computed),
            flat=sum(len(example.row) for group in groups for example in group),
            seconds=seconds,
            figures={
                "kl_behaviour": kl / count,
                "entropy": entropy / count,
                "clipped": clipped / count,
                "ratio_max": ranks.max(self._ratio_max),
            },
        )
