"""The trainer: takes training rows, makes optimiser steps. It sums weighted losses and does not depend on the algorithm.

A batch is packed group by group into forests that fit the token budget; a group that does not fit is cut, or computed depth first
if that is less work. Token weights are fixed over the whole batch, so packing, cutting and dividing it over processes do not
change the loss. All processes call the same methods with the same batch. What must survive a crash is in `state`.
"""

import sys
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast, get_args

import numpy as np
import torch
from torch import Tensor, nn

from sandlot.core.errors import ConfigError
from sandlot.model.nn.decoder import Decoder
from sandlot.train.algorithms.algorithms import TrainingRow
from sandlot.train.algorithms.losses import Bounded, Columns, Ranking
from sandlot.train.forest.columns import common_columns, fixed_column, stream_columns
from sandlot.train.forest.forest import Cut, cut_if_cheaper, cut_rows, forest_of, pack_numbers
from sandlot.train.forest.forward import RowOutputs
from sandlot.train.forest.layers import PLAIN, Recompute, compiled
from sandlot.train.forest.module import DecoderWithCritic
from sandlot.train.parallel.division import balance, cost_of
from sandlot.train.parallel.ranks import ALONE, Ranks
from sandlot.train.rows import Floats, Row
from sandlot.train.tally import Tally, Update

if TYPE_CHECKING:
    from sandlot.train.parallel.sharded import Shards


@dataclass(frozen=True, slots=True, kw_only=True)
class Optimisation:
    """Settings of the optimiser (AdamW).

    ```python
    from sandlot.train import Optimisation

    gentle = Optimisation(learning_rate=1e-6, warmup=10)
    ```
    """

    learning_rate: float = 1e-5
    """The rate after warm-up. Small models and LoRA want more, up to 1e-3."""
    warmup: int = 0
    """Steps over which the rate rises from 0."""
    weight_decay: float = 0.0
    """AdamW's weight decay."""
    betas: tuple[float, float] = (0.9, 0.95)
    """AdamW's betas."""
    max_norm: float = 1.0
    """Gradients are clipped to this norm."""
    tokens: int = 16384
    """Tokens per forward pass; lower it when memory runs out."""
    recompute: Recompute = "nothing"
    """Gradient checkpointing: what the backward pass computes again instead of storing it, for less memory. `everything` takes
    the least memory, `all but attention` less time."""
    compiled: bool | None = None
    """Fuse the layers with `torch.compile`: about twice as fast on a GPU, equal within rounding; the first step then takes a
    minute. None: on a GPU, with one process, for a model of at least 300 million weights."""
    minibatches: int = 1
    """Optimiser steps per batch; more than one needs a loss that clips its ratio."""
    epochs: int = 1
    """Passes over each batch."""

    def __post_init__(self) -> None:
        if self.recompute not in get_args(Recompute):
            known = ", ".join(f'"{name}"' for name in get_args(Recompute))
            raise ConfigError(f"Optimisation: recompute is {self.recompute!r}; give one of {known}")


_WORTH_COMPILING = 300_000_000
"""Weights of a model worth a minute of compilation: 20 steps of SmolLM2-135M (135 million) took 44 s plain, 106 s compiled."""
_DUMMY_ROW = Row(
    rollout=("", 0),
    ids=np.zeros(2, np.int32),
    trained=np.array([False, True]),
    logprobs=np.zeros(2, np.float32),
    versions=np.zeros(2, np.int32),
    turns=np.zeros(2, np.int32),
)
"""Dummy row: a process without work computes it, to take part in collective operations."""


class Trainer:
    """A decoder with its optimiser, and if needed a critic and a reference."""

    def __init__(
        self,
        decoder: Decoder,
        optimisation: Optimisation,
        *,
        critic: bool = False,
        reference: Decoder | None = None,
        temperature: float = 1.0,
        ranks: Ranks = ALONE,
    ) -> None:
        self.decoder, self.optimisation, self.reference, self.temperature = decoder, optimisation, reference, temperature
        weight = decoder.embedding.weight
        self.ranks, self.device = ranks, weight.device if ranks.count == 1 else ranks.device
        self._functions = compiled() if _compiles(optimisation, ranks, self.device, decoder) else PLAIN
        self.critic = nn.Linear(decoder.shape.hidden, 1, device=weight.device, dtype=weight.dtype) if critic else None
        if self.critic is not None:
            nn.init.zeros_(self.critic.weight)
            nn.init.zeros_(self.critic.bias)
        self._network = DecoderWithCritic(decoder, self.critic)
        self._reference = DecoderWithCritic(reference) if reference is not None else None
        self._shards = _open_shards(self._network, self._reference, ranks) if ranks.count > 1 else None
        self.parameters = [parameter for parameter in self._all() if parameter.requires_grad]
        # One kernel reads and writes everything once, without memory of its own. Not yet tried on shards.
        self._fused = True if self.device.type == "cuda" and ranks.count == 1 else None
        self.optimiser = torch.optim.AdamW(
            self.parameters,
            lr=optimisation.learning_rate,
            betas=optimisation.betas,
            weight_decay=optimisation.weight_decay,
            fused=self._fused,
        )
        self.steps = 0

    def _all(self) -> list[nn.Parameter]:
        return [*self.decoder.parameters(), *(self.critic.parameters() if self.critic is not None else ())]

    # -- forward passes -------------------------------------------------------------------------------------------------------

    def logprobs(self, rows: Sequence[Row], decoder: Decoder | None = None) -> list[Floats]:
        """Log-probabilities of each row's trained tokens, under the current weights or another decoder's."""
        return self._fixed_logprobs([rows], self._network if decoder is None else DecoderWithCritic(decoder))[0]

    @torch.no_grad()
    def values(self, row: Row) -> Floats:
        """The critic's value before each trained token of a row; 0 elsewhere."""
        if self.critic is None:
            raise ValueError("this trainer has no critic; build it with `critic=True`")
        values = self._forward([row], critic=True).values
        assert values is not None
        along = np.zeros(len(row), np.float32)
        along[row.trained] = values.cpu().numpy()
        return along

    @torch.no_grad()
    def _fixed_logprobs(self, groups: Sequence[Sequence[Row]], network: DecoderWithCritic) -> list[list[Floats]]:
        """Log-probabilities of every group's rows, under weights that do not change during the update."""
        work = [[group[number] for number in pack] for group in groups for pack in self._packs(group)]
        shares = balance([float(sum(map(len, rows))) for rows in work], self.ranks.count)
        own = {piece: self._forward(work[piece], network).logprobs.cpu().numpy() for piece in shares[self.ranks.number]}
        for _ in range(max(map(len, shares)) - len(own)):
            self._forward([_DUMMY_ROW], network)
        found = {piece: array for each in self.ranks.gather(own) for piece, array in each.items()}
        joined = np.concatenate([found[piece] for piece in range(len(work))]) if work else np.empty(0, np.float32)
        counts = [int(row.trained.sum()) for group in groups for row in group]
        rows = iter(np.split(joined, np.cumsum(counts)[:-1]))
        return [[next(rows) for _ in group] for group in groups]

    def _packs(self, rows: Sequence[Row]) -> list[list[int]]:
        return pack_numbers([len(row) for row in rows], self.optimisation.tokens)

    def _forward(self, rows: Sequence[Row], network: DecoderWithCritic | None = None, **asked: Any) -> RowOutputs:
        with self._precision():
            found = (network or self._network).compute(
                rows, temperature=self.temperature, tokens=self._whole_up_to, functions=self._functions, **asked
            )
        if self._shards is not None and not torch.is_grad_enabled():
            self._shards.reshard(network or self._network)
        return found

    @property
    def _whole_up_to(self) -> int:
        """Forests of more tokens are computed depth first; only with one process on the CPU.

        On an H200 it took 17.7 GiB and 2.5 s for a group that took 7.5 GiB and 1.6 s whole (`benchmarks/depth_first.py`).
        """
        return self.optimisation.tokens if self.ranks.count == 1 and self.device.type == "cpu" else sys.maxsize

    @contextmanager
    def _precision(self) -> Generator[None]:
        """On a GPU, matrix products are in bf16; weights and sums stay in fp32."""
        enabled = self.device.type == "cuda" and self.decoder.embedding.weight.dtype == torch.float32
        with torch.autocast(self.device.type, torch.bfloat16, enabled=enabled):
            yield

    # -- learning ------------------------------------------------------------------------------------------------------

    def update(self, groups: Sequence[Sequence[TrainingRow]], rate: float = 1.0) -> Update:
        """Train on a batch: `epochs` passes of `minibatches` optimiser steps, with `rate` times the learning rate."""
        started = time.perf_counter()
        optimisation = self.optimisation
        settled = optimisation.minibatches * optimisation.epochs > 1
        rows = [[example.row for example in group] for group in groups]
        old = self._fixed_logprobs(rows, self._network) if settled else None
        reference = self._fixed_logprobs(rows, self._reference) if self._reference is not None else None
        tally = Tally()
        for _ in range(optimisation.epochs):
            for number in range(optimisation.minibatches):
                chosen = range(number, len(groups), optimisation.minibatches)
                if chosen:
                    self._step(groups, list(chosen), old, reference, tally, rate)
        return tally.update(groups, time.perf_counter() - started, self.ranks)

    def _cut(self, group: Sequence[TrainingRow]) -> list[Cut]:
        """A group cut to fit the budget, or whole. Pairs are compared within one forest, so a group with pairs stays whole."""
        paired = any(example.partner is not None for example in group)
        rows = [example.row.ids for example in group]
        fit = cut_if_cheaper if self._whole_up_to < sys.maxsize else cut_rows
        found = fit(rows, sys.maxsize if paired else self.optimisation.tokens)
        return [cut for cut in found if any(group[row].row.trained.any() for row in cut.rows)]

    def _shares(self, groups: Sequence[Sequence[TrainingRow]], pieces: Sequence[tuple[int, Cut]]) -> list[list[list[int]]]:
        """The packs of pieces for each process."""
        if self.ranks.count == 1:
            costs = [float(cut.size) for _, cut in pieces]
        else:
            forests = (forest_of([groups[number][row].row.ids for row in cut.rows]) for number, cut in pieces)
            costs = [cost_of(forest, self.decoder.shape) for forest in forests]
        return [
            [
                [share[place] for place in pack]
                for pack in pack_numbers([pieces[piece][1].size for piece in share], self.optimisation.tokens)
            ]
            for share in balance(costs, self.ranks.count)
        ]

    def _step(
        self,
        groups: Sequence[Sequence[TrainingRow]],
        chosen: list[int],
        old: list[list[Floats]] | None,
        reference: list[list[Floats]] | None,
        tally: Tally,
        rate: float,
    ) -> None:
        pieces = [(number, cut) for number in chosen for cut in self._cut(groups[number])]
        # Token weights were normalised over the whole batch; a step on a part of it scales them up.
        share = len(groups) / len(chosen)
        entropy = _asks_entropy([example for number in chosen for example in groups[number]])
        self.optimiser.zero_grad(set_to_none=True)
        shares = self._shares(groups, pieces)
        for pack in shares[self.ranks.number]:
            together = [pieces[piece] for piece in pack]
            places = [(number, row) for number, cut in together for row in cut.rows]
            columns = {"old": fixed_column(old, places, self.device), "reference": fixed_column(reference, places, self.device)}
            examples = [groups[number][row] for number, row in places]
            loss = self._loss(examples, [len(cut.rows) for _, cut in together], columns, tally, entropy=entropy) * share
            cast("Any", loss).backward()
            tally.loss.append(loss.detach())
        for _ in range(max(map(len, shares)) - len(shares[self.ranks.number])):
            self._join_idle()
        norm = nn.utils.clip_grad_norm_(self.parameters, self.optimisation.max_norm)
        norm = self._shards.full(norm) if self._shards is not None else norm
        tally.norm = max(tally.norm, float(norm))
        if not torch.isfinite(norm):
            raise FloatingPointError(f"the gradient's norm is {float(norm)} at step {self.steps}; the weights were not changed")
        for group in self.optimiser.param_groups:
            group["lr"] = rate * self.optimisation.learning_rate * min(1.0, (self.steps + 1) / max(1, self.optimisation.warmup))
        cast("Any", self.optimiser).step()
        self.steps += 1

    def _join_idle(self) -> None:
        """Take part in the collective operations of the other processes: all gather weights and sum gradients, or none."""
        critic = self.critic is not None
        cast("Any", _zero_loss(self._forward([_DUMMY_ROW], critic=critic, recompute=self.optimisation.recompute))).backward()

    def _loss(
        self,
        examples: Sequence[TrainingRow],
        sizes: Sequence[int],
        settled: Mapping[str, Tensor | None],
        tally: Tally,
        *,
        entropy: bool | None = None,
    ) -> Tensor:
        result = self._forward(
            [example.row for example in examples],
            entropy=_asks_entropy(examples) if entropy is None else entropy,
            critic=self.critic is not None,
            recompute=self.optimisation.recompute,
        )
        common = common_columns(examples, sizes, result, settled)
        tally.add(common, result.computed)
        loss = _zero_loss(result)
        for component in dict.fromkeys(stream.component for example in examples for stream in example.streams):
            signal, weight = stream_columns(examples, component, self.device)
            columns = Columns(**common, signal=signal)
            if isinstance(component, Bounded):
                tally.clipped.append(component.held_back(columns).sum())
            if isinstance(component, Ranking):
                tally.rank(component, columns)
            loss = loss + (component(columns) * weight).sum()
        return loss

    # -- weights and state -------------------------------------------------------------------------------------------------------

    def whole(self) -> Decoder:
        """A decoder with all current weights, for reading; on rank 0, if there are several."""
        return self.decoder if self._shards is None else self._shards.whole(self.steps)

    def overwrite(self, put: Callable[[Decoder], None] | None) -> None:
        """Change the weights with a function that receives all of them, on rank 0; the other ranks pass None."""
        if self._shards is not None:
            self._shards.overwrite(put, self.steps)
        elif put is not None:
            put(self.decoder)

    def state(self) -> dict[str, Any]:
        """Everything that must survive a crash, except the decoder's weights."""
        optimiser = self.optimiser.state_dict() if self._shards is None else self._shards.state(self.optimiser)
        critic = self.critic.state_dict() if self.critic is not None else None
        return {
            "steps": self.steps,
            "optimiser": optimiser,
            "critic": self._shards.gather(critic) if self._shards is not None and critic else critic,
            "random": torch.get_rng_state(),
        }

    def restore(self, state: Mapping[str, Any] | None) -> None:
        """Continue from a stored state, which rank 0 has."""
        optimiser = self._as_own(state["optimiser"]) if state is not None else None
        if self._shards is not None:
            self.steps = self.ranks.broadcast(state["steps"] if state else None)
            self._shards.put_state(self.optimiser, self.parameters, optimiser)
            self._shards.put_critic(self.critic, state["critic"] if state else None)
        elif state is not None:
            self.steps = int(state["steps"])
            self.optimiser.load_state_dict(cast("dict[str, Any]", optimiser))
            if self.critic is not None:
                self.critic.load_state_dict(state["critic"])
        if state is not None:
            torch.set_rng_state(state["random"])

    def _as_own(self, optimiser: Mapping[str, Any]) -> dict[str, Any]:
        """An optimiser's state for this trainer's device: torch would take over how the one that stored it computes."""
        return {**optimiser, "param_groups": [{**group, "fused": self._fused} for group in optimiser["param_groups"]]}


def _open_shards(network: DecoderWithCritic, reference: DecoderWithCritic | None, ranks: Ranks) -> "Shards":
    from sandlot.train.parallel.sharded import Shards, shard  # noqa: PLC0415 - slow to import, and only needed with several processes

    if reference is not None:
        shard(reference, ranks)
    return Shards(network, ranks)


def _compiles(optimisation: Optimisation, ranks: Ranks, device: torch.device, decoder: Decoder) -> bool:
    if optimisation.compiled and ranks.count > 1:
        raise ValueError("`compiled` is for one process: FSDP gathers every linear layer in Python. Leave it out")
    if optimisation.compiled is not None:
        return optimisation.compiled
    large = sum(weight.numel() for weight in decoder.parameters()) >= _WORTH_COMPILING
    return large and device.type == "cuda" and ranks.count == 1


def _asks_entropy(examples: Sequence[TrainingRow]) -> bool:
    return any("entropy" in stream.component.needs for example in examples for stream in example.streams)


def _zero_loss(result: RowOutputs) -> Tensor:
    """Zero, with a zero gradient for every weight: processes sum gradients, so all must have the same ones."""
    return 0.0 * (result.logprobs.sum() + (result.values.sum() if result.values is not None else 0.0))
