"""The figures of an update, summed over its forests and over all processes."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import torch
from torch import Tensor

from sandlot.train.algorithms.algorithms import TrainingRow
from sandlot.train.algorithms.losses import Columns, Ranking
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
    it, else estimated from the sampled tokens), and `ratio_max`. With pairs also `agreement`: the share of them that the weights
    before their step ranked rightly."""


def joint_update(updates: Sequence[Update]) -> Update:
    """The figures of several policies' updates in one step: sums, and means over all trained tokens."""
    if len(updates) == 1:
        return updates[0]

    def mean(figure: Callable[[Update], float | None]) -> float:
        known = [(each.tokens, value) for each in updates if (value := figure(each)) is not None]
        terms = [tokens * value for tokens, value in known]
        total = math.fsum(terms) if all(map(math.isfinite, terms)) else sum(terms)  # `fsum` refuses infinities of both signs
        return total / max(1, sum(tokens for tokens, _ in known))

    names = dict.fromkeys(name for each in updates for name in each.figures if name != "ratio_max")
    figures = {name: mean(lambda each, name=name: each.figures.get(name)) for name in names}
    return Update(
        loss=mean(lambda each: each.loss),
        norm=max(each.norm for each in updates),
        tokens=sum(each.tokens for each in updates),
        computed=sum(each.computed for each in updates),
        flat=sum(each.flat for each in updates),
        seconds=math.fsum(each.seconds for each in updates),
        figures={**figures, "ratio_max": max(each.figures["ratio_max"] for each in updates)},
    )


class Tally:
    """The sums of one update over the forests of this process.

    Sums of single forests stay on their device until the end: reading one would wait for the GPU.
    """

    def __init__(self) -> None:
        self.norm = 0.0
        self.loss: list[Tensor] = []
        self.clipped: list[Tensor] = []
        self._kl: list[Tensor] = []
        self._entropy: list[Tensor] = []
        self._ratio: list[Tensor] = []
        self._right: list[Tensor] = []
        self._pairs: list[Tensor] = []
        self._computed = self._tokens = 0

    def add(self, columns: Mapping[str, Any], computed: int) -> None:
        """Count one forest."""
        self._computed += computed
        apart = (columns["old"] - columns["behaviour"]).double()
        self._tokens += len(apart)
        if not len(apart):
            return
        self._kl.append((torch.expm1(apart) - apart).sum())
        self._ratio.append(apart.abs().max().exp())
        spread = columns["entropy"] if columns["entropy"] is not None else -columns["old"]
        self._entropy.append(spread.detach().sum())

    def rank(self, component: Ranking, columns: Columns) -> None:
        """Count the pairs of one forest that are ranked rightly; equal scores count half."""
        lead = component.lead(columns).detach()
        better = (columns.row_sum((columns.signal > 0).to(lead.dtype)) > 0).to(lead.dtype)
        self._right.append((0.5 * (1 + lead.sign()) * better).sum())
        self._pairs.append(better.sum())

    def update(self, groups: Sequence[Sequence[TrainingRow]], seconds: float, ranks: Ranks = ALONE) -> Update:
        """The figures over all processes; the same on each."""
        own = [_total(each) for each in (self.loss, self.clipped, self._kl, self._entropy)]
        counts = [float(self._computed), float(self._tokens), _total(self._right), _total(self._pairs)]
        loss, clipped, kl, entropy, computed, tokens, right, pairs = ranks.sum([*own, *counts])
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
                "ratio_max": ranks.max(max(_values(self._ratio), default=0.0)),
                **({"agreement": right / pairs} if pairs else {}),
            },
        )


def _values(figures: Sequence[Tensor]) -> list[float]:
    return cast("Any", torch.stack(list(figures))).tolist() if figures else []


def _total(figures: Sequence[Tensor]) -> float:
    """The sum in order; `sum` rounds differently from one Python version to the next."""
    total = 0.0
    for value in _values(figures):
        total += value
    return total
