"""The trainer: examples in, one step of the weights out. It sums weighted losses and is blind to the algorithm.

A batch is packed group by group into forests that fit the token budget; a group that does not fit is cut, or computed depth first
if that is less work. Weights of tokens were fixed over the whole batch, so that none of it changes the loss. What must survive a
crash is in `state`.
"""

import sys
import time
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor, nn

from sandlot.nn.decoder import Decoder
from sandlot.train.algorithms import Example
from sandlot.train.components import Bounded, Columns, Component
from sandlot.train.forest import Cut, fitted, packs
from sandlot.train.forward import Seen, placed, seen
from sandlot.train.rows import Floats, Row


@dataclass(frozen=True, slots=True, kw_only=True)
class Optimisation:
    """How weights move."""

    learning_rate: float = 1e-5
    warmup: int = 0
    """Steps over which the rate rises to its own."""
    weight_decay: float = 0.0
    betas: tuple[float, float] = (0.9, 0.95)
    max_norm: float = 1.0
    """Gradients are scaled down to this norm."""
    tokens: int = 16384
    """Tokens computed at once: what memory allows."""
    recompute: bool = False
    """Layers are computed again in the backward pass instead of being kept."""
    minibatches: int = 1
    """Steps a batch is cut into; more than one needs a loss that bounds its ratio."""
    epochs: int = 1


@dataclass(frozen=True, slots=True)
class Update:
    """What one update did."""

    loss: float
    norm: float
    """Of the gradient, before it was scaled."""
    tokens: int
    """Trained, all rows."""
    computed: int
    """Of forests, with their shared prefixes once."""
    flat: int
    """What rows without sharing would have been."""
    seconds: float
    figures: Mapping[str, float] = field(default_factory=dict[str, float])
    """Means over trained tokens: `kl_behaviour`, `clipped` (share that a bound held back), `entropy` (exact where a component
    asked for it, else what the sampled tokens say of it), and `ratio_max`."""


class Trainer:
    """A decoder, what it optimises with, and if wanted a critic and a reference."""

    def __init__(
        self,
        decoder: Decoder,
        optimisation: Optimisation,
        *,
        critic: bool = False,
        reference: Decoder | None = None,
        temperature: float = 1.0,
    ) -> None:
        self.decoder, self.optimisation, self.reference, self.temperature = decoder, optimisation, reference, temperature
        weight = decoder.embedding.weight
        self.device = weight.device
        self.critic = nn.Linear(decoder.shape.hidden, 1, device=weight.device, dtype=weight.dtype) if critic else None
        if self.critic is not None:
            nn.init.zeros_(self.critic.weight)
            nn.init.zeros_(self.critic.bias)
        self.parameters = [parameter for parameter in self._all() if parameter.requires_grad]
        self.optimiser = torch.optim.AdamW(
            self.parameters,
            lr=optimisation.learning_rate,
            betas=optimisation.betas,
            weight_decay=optimisation.weight_decay,
        )
        self.steps = 0

    def _all(self) -> list[nn.Parameter]:
        return [*self.decoder.parameters(), *(self.critic.parameters() if self.critic is not None else ())]

    # -- looking -------------------------------------------------------------------------------------------------------

    @torch.no_grad()
    def logprobs(self, rows: Sequence[Row], decoder: Decoder | None = None) -> list[Floats]:
        """Log-probabilities of each row's trained tokens, under the present weights or another decoder's."""
        parts = [self._seen([rows[number] for number in pack], decoder=decoder).logprobs for pack in self._packs(rows)]
        found = torch.cat(parts).cpu().numpy() if parts else np.empty(0, np.float32)
        return list(np.split(found, np.cumsum([int(row.trained.sum()) for row in rows])[:-1]))

    @torch.no_grad()
    def values(self, row: Row) -> Floats:
        """The critic's view before each trained token of a row; 0 elsewhere."""
        if self.critic is None:
            raise ValueError("this trainer has no critic; build it with `critic=True`")
        values = self._seen([row], critic=self.critic).values
        assert values is not None
        along = np.zeros(len(row), np.float32)
        along[row.trained] = values.cpu().numpy()
        return along

    def _packs(self, rows: Sequence[Row]) -> list[list[int]]:
        return packs([len(row) for row in rows], self.optimisation.tokens)

    def _seen(self, rows: Sequence[Row], *, decoder: Decoder | None = None, **asked: Any) -> Seen:
        with self._precision():
            return seen(decoder or self.decoder, rows, temperature=self.temperature, tokens=self.optimisation.tokens, **asked)

    @contextmanager
    def _precision(self) -> Generator[None]:
        """On a GPU matrices are multiplied in bf16 while the weights, and what is summed, stay fp32."""
        enabled = self.device.type == "cuda" and self.decoder.embedding.weight.dtype == torch.float32
        with torch.autocast(self.device.type, torch.bfloat16, enabled=enabled):
            yield

    # -- learning ------------------------------------------------------------------------------------------------------

    def update(self, groups: Sequence[Sequence[Example]]) -> Update:
        """One pass over a batch, in as many steps as asked for."""
        started = time.perf_counter()
        optimisation = self.optimisation
        settled = optimisation.minibatches * optimisation.epochs > 1
        old = self._settled(groups, self.decoder) if settled else None
        reference = self._settled(groups, self.reference) if self.reference is not None else None
        tally = Tally()
        for _ in range(optimisation.epochs):
            for number in range(optimisation.minibatches):
                chosen = range(number, len(groups), optimisation.minibatches)
                if chosen:
                    self._step(groups, list(chosen), old, reference, tally)
        return tally.update(groups, time.perf_counter() - started)

    def _settled(self, groups: Sequence[Sequence[Example]], decoder: Decoder) -> list[list[Floats]]:
        """Log-probabilities of every group's rows under weights that do not move while the batch is learned from."""
        return [self.logprobs([example.row for example in group], decoder) for group in groups]

    def _joined(self, settled: list[list[Floats]] | None, places: Sequence[tuple[int, int]]) -> Tensor | None:
        return placed(np.concatenate([settled[number][row] for number, row in places]), self.device) if settled else None

    def _cuts(self, group: Sequence[Example]) -> list[Cut]:
        """A group as it fits the budget, or whole. Pairs are compared within a forest, so a group that has some stays whole."""
        paired = any(example.partner is not None for example in group)
        return fitted([example.row.ids for example in group], sys.maxsize if paired else self.optimisation.tokens)

    def _step(
        self,
        groups: Sequence[Sequence[Example]],
        chosen: list[int],
        old: list[list[Floats]] | None,
        reference: list[list[Floats]] | None,
        tally: "Tally",
    ) -> None:
        pieces = [(number, cut) for number in chosen for cut in self._cuts(groups[number])]
        # Token weights were normalised over the whole batch; a step that sees a part of it sees that part's share.
        share = len(groups) / len(chosen)
        self.optimiser.zero_grad(set_to_none=True)
        for pack in packs([cut.size for _, cut in pieces], self.optimisation.tokens):
            together = [pieces[piece] for piece in pack]
            places = [(number, row) for number, cut in together for row in cut.rows]
            columns = {"old": self._joined(old, places), "reference": self._joined(reference, places)}
            examples = [groups[number][row] for number, row in places]
            loss = self._loss(examples, [len(cut.rows) for _, cut in together], columns, tally) * share
            cast("Any", loss).backward()
            tally.loss += float(loss.detach())
        norm = nn.utils.clip_grad_norm_(self.parameters, self.optimisation.max_norm)
        tally.norm = max(tally.norm, float(norm))
        if not torch.isfinite(norm):
            raise FloatingPointError(f"the gradient's norm is {float(norm)} at step {self.steps}; the weights were not changed")
        for group in self.optimiser.param_groups:
            group["lr"] = self.optimisation.learning_rate * min(1.0, (self.steps + 1) / max(1, self.optimisation.warmup))
        cast("Any", self.optimiser).step()
        self.steps += 1

    def _loss(
        self, examples: Sequence[Example], sizes: Sequence[int], settled: Mapping[str, Tensor | None], tally: "Tally"
    ) -> Tensor:
        needs = {need for example in examples for stream in example.streams for need in stream.component.needs}
        result = self._seen(
            [example.row for example in examples],
            entropy="entropy" in needs,
            critic=self.critic if "values" in needs else None,
            recompute=self.optimisation.recompute,
        )
        common = self._columns(examples, sizes, result, settled)
        tally.see(common, result.computed)
        loss = result.logprobs.new_zeros(())
        for component in dict.fromkeys(stream.component for example in examples for stream in example.streams):
            signal, weight = self._along(examples, component)
            columns = Columns(**common, signal=signal)
            if isinstance(component, Bounded):
                tally.clipped += float(component.held_back(columns).sum())
            loss = loss + (component(columns) * weight).sum()
        return loss

    def _columns(
        self, examples: Sequence[Example], sizes: Sequence[int], result: Seen, settled: Mapping[str, Tensor | None]
    ) -> dict[str, Any]:
        counts = [int(example.row.trained.sum()) for example in examples]
        starts = np.repeat(np.cumsum([0, *sizes[:-1]]), sizes)
        partners = [
            -1 if example.partner is None else int(start) + example.partner
            for start, example in zip(starts, examples, strict=True)
        ]
        behaviour = np.concatenate([example.row.logprobs[example.row.trained] for example in examples])
        old = settled["old"]
        return {
            "logprobs": result.logprobs,
            "old": result.logprobs.detach() if old is None else old,
            "behaviour": placed(behaviour, self.device),
            "row": placed(np.repeat(np.arange(len(examples)), counts), self.device),
            "rows": len(examples),
            "partner": torch.tensor(partners, device=self.device),
            "reference": settled["reference"],
            "entropy": result.entropy,
            "values": result.values,
        }

    def _along(self, examples: Sequence[Example], component: Component) -> tuple[Tensor, Tensor]:
        """The signal and the weight of one component on every trained token; weight 0 where a row does not have it."""
        signals: list[Floats] = []
        weights: list[Floats] = []
        for example in examples:
            trained = example.row.trained
            stream = next((stream for stream in example.streams if stream.component == component), None)
            blank = np.zeros(int(trained.sum()), np.float32)
            signals.append(stream.signal[trained] if stream else blank)
            weights.append(stream.weight[trained] if stream else blank)
        return placed(np.concatenate(signals), self.device), placed(np.concatenate(weights), self.device)

    # -- keeping -------------------------------------------------------------------------------------------------------

    def state(self) -> dict[str, Any]:
        """Everything that must survive a crash, but for the decoder's own weights."""
        return {
            "steps": self.steps,
            "optimiser": self.optimiser.state_dict(),
            "critic": self.critic.state_dict() if self.critic is not None else None,
            "random": torch.get_rng_state(),
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on from a kept state."""
        self.steps = int(state["steps"])
        self.optimiser.load_state_dict(state["optimiser"])
        if self.critic is not None:
            self.critic.load_state_dict(state["critic"])
        torch.set_rng_state(state["random"])


class Tally:
    """Sums of one update, kept on the device until its end."""

    def __init__(self) -> None:
        self.loss = self.norm = self.clipped = 0.0
        self.computed = 0
        self._sums: dict[str, float] = {"tokens": 0.0, "kl_behaviour": 0.0, "entropy": 0.0, "ratio_max": 0.0}

    def see(self, columns: Mapping[str, Any], computed: int) -> None:
        """Count one forest."""
        self.computed += computed
        apart = (columns["old"] - columns["behaviour"]).double()
        self._sums["tokens"] += len(apart)
        if not len(apart):
            return
        self._sums["kl_behaviour"] += float((torch.expm1(apart) - apart).sum())
        self._sums["ratio_max"] = max(self._sums["ratio_max"], float(apart.abs().max().exp()))
        spread = columns["entropy"] if columns["entropy"] is not None else -columns["old"]
        self._sums["entropy"] += float(spread.detach().sum())

    def update(self, groups: Sequence[Sequence[Example]], seconds: float) -> Update:
        """The update's report."""
        tokens = int(self._sums["tokens"])
        figures = {name: self._sums[name] / max(1, tokens) for name in ("kl_behaviour", "entropy")}
        return Update(
            loss=self.loss,
            norm=self.norm,
            tokens=tokens,
            computed=self.computed,
            flat=sum(len(example.row) for group in groups for example in group),
            seconds=seconds,
            figures={**figures, "clipped": self.clipped / max(1, tokens), "ratio_max": self._sums["ratio_max"]},
        )
