"""The input of a forward pass, and what runs it.

A batch concatenates tokens of several sequences: whole prompts, chunks of prompts, single decoded tokens.
"""

from dataclasses import dataclass
from typing import Protocol

from torch import Tensor

from sandlot.model.engine.cache import KVCache
from sandlot.model.nn.mixed import AdapterWeights


@dataclass(frozen=True, slots=True)
class Batch:
    """N tokens to compute, of B sequences, decoding ones first. The tensors are in host memory, new for every batch."""

    ids: Tensor
    """`[N]` int64."""
    positions: Tensor
    """`[N]` int64, each within its own sequence."""
    slots: Tensor
    """`[N]` int64: the cache slot of each token, `block * block_size + offset`."""
    starts: Tensor
    """`[B + 1]` int32: sequence b's tokens are `ids[starts[b]:starts[b + 1]]`."""
    lengths: Tensor
    """`[B]` int32: tokens of each sequence in the KV cache after this pass."""
    tables: Tensor
    """`[B, maximum blocks]` int32: the sequence's blocks in order; entries beyond its length are never read."""
    wanted: Tensor
    """`[W]` int64: indices of the tokens whose logits are needed."""
    longest: int
    """The maximum tokens of one sequence in this pass; 1 if all are decoding."""
    adapters: tuple[AdapterWeights | None, ...] = ()
    """The adapter of each sequence, None for the base model; empty if none has one."""


class Runner(Protocol):
    """Runs batches on one device."""

    cache: KVCache
    """The KV cache it reads and writes."""
    ahead: bool
    """Whether `forward` returns before the device is done, so that the next step can be launched before this one's tokens are
    known."""

    def forward(self, batch: Batch, ids: Tensor | None = None) -> Tensor:
        """Compute logits `[W, vocabulary]` of the wanted tokens in fp32 on the runner's device, and write all KV.

        `ids` are on the device and replace those of a decoding batch.
        """
        ...

    def place(self, weights: AdapterWeights) -> AdapterWeights:
        """The weights of an adapter where `forward` needs them; `MemoryError` if there is no room."""
        ...
