"""What one forward pass is given, and the KV it reads and writes.

A batch is tokens of several sequences, laid end to end: whole prompts, chunks of prompts, single decoded tokens. KV lives
in blocks of `block_size` tokens; a sequence is a list of block numbers.
"""

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from sandlot.model.nn.shape import Shape


@dataclass(frozen=True, slots=True)
class Batch:
    """Tokens to compute: N of them, of B sequences, decoding ones first. The tensors are on the host, new for every batch."""

    ids: Tensor
    """`[N]` int64."""
    positions: Tensor
    """`[N]` int64, each within its own sequence."""
    slots: Tensor
    """`[N]` int64: where each token's key and value go, `block * block_size + offset`."""
    starts: Tensor
    """`[B + 1]` int32: sequence b's tokens are `ids[starts[b]:starts[b + 1]]`."""
    lengths: Tensor
    """`[B]` int32: tokens of each sequence that are in KV after this pass, those of this pass included."""
    tables: Tensor
    """`[B, most blocks]` int32: the sequence's blocks in order; what lies beyond its length is never read."""
    wanted: Tensor
    """`[W]` int64: the tokens of N whose logits are wanted."""
    longest: int
    """The most tokens one sequence has in this pass: 1 if all of it is decoding."""


class KVCache:
    """Keys and values of every block: `[layers, blocks, kv_heads, block_size, head]` each."""

    def __init__(self, shape: Shape, blocks: int, block_size: int, device: torch.device, dtype: torch.dtype) -> None:
        self.block_size = block_size
        size = (shape.layers, blocks, shape.kv_heads, block_size, shape.head)
        self.keys = torch.zeros(size, device=device, dtype=dtype)
        self.values = torch.zeros(size, device=device, dtype=dtype)

    @staticmethod
    def block_bytes(shape: Shape, block_size: int, dtype: torch.dtype) -> int:
        """Memory of one block, in all layers."""
        return 2 * shape.layers * shape.kv_heads * block_size * shape.head * dtype.itemsize

    def copy(self, source: int, target: int) -> None:
        """Make one block the same as another, in all layers."""
        self.keys[:, target] = self.keys[:, source]
        self.values[:, target] = self.values[:, source]


class Runner(Protocol):
    """Runs batches on one device."""

    @property
    def cache(self) -> KVCache:
        """The KV it reads and writes."""
        ...

    def forward(self, batch: Batch) -> Tensor:
        """Logits `[W, vocabulary]` of the wanted tokens, fp32, on the runner's device. KV of all tokens is written."""
        ...
