"""The KV cache: blocks of `block_size` tokens; a sequence has a table of block numbers.

Keys and values are stored as they were computed, or with 8 bits per number. Then the numbers of one token and head have a common
scale, so no model needs a calibration, and no number is too large. What is read again differs from what was computed.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from sandlot.model.engine.blocks import KvDtype
from sandlot.model.nn.shape import Shape

_EIGHT_BITS: dict[KvDtype, torch.dtype] = {"int8": torch.int8, "fp8": torch.float8_e4m3fn}
LARGEST = {torch.int8: 127.0, torch.float8_e4m3fn: 448.0}
"""The largest number that is stored, by the type it is stored in."""
SMALLEST = 1e-30
"""Rows without a larger number are stored as zeros: their scale would be too small for a number of fp32."""


@dataclass(frozen=True, slots=True)
class Stored:
    """Keys or values of one layer, or of all."""

    numbers: Tensor
    """`[..., blocks, kv_heads, block_size, head]`."""
    scales: Tensor | None
    """`[..., blocks, kv_heads, block_size]` fp32, which the numbers are multiplied with; None if they are as computed."""

    def layer(self, number: int) -> "Stored":
        """Those of one layer."""
        return Stored(self.numbers[number], None if self.scales is None else self.scales[number])

    def copy(self, source: int, target: int) -> None:
        """Copy one block to another, in all layers."""
        self.numbers[:, target] = self.numbers[:, source]
        if self.scales is not None:
            self.scales[:, target] = self.scales[:, source]

    def write(self, blocks: Tensor, offsets: Tensor, x: Tensor) -> None:
        """Store `[tokens, kv_heads, head]` of one layer, each token in its block at its offset."""
        if self.scales is None:
            self.numbers[blocks, :, offsets] = x
            return
        numbers, scales = quantise(x, self.numbers.dtype)
        self.numbers.view(torch.uint8)[blocks, :, offsets] = numbers.view(torch.uint8)
        self.scales[blocks, :, offsets] = scales

    def read(self, rows: Tensor, dtype: torch.dtype) -> Tensor:
        """`[rows, block_size, head]` of one layer; row `block * kv_heads + head` is one head of one block."""
        size, width = self.numbers.shape[-2:]
        if self.scales is None:
            return self.numbers.view(-1, size * width).index_select(0, rows).view(-1, size, width)
        # torch cannot index numbers of fp8, so they are taken for bytes.
        found = self.numbers.view(torch.uint8).view(-1, size * width).index_select(0, rows).view(self.numbers.dtype)
        scales = self.scales.view(-1, size).index_select(0, rows)
        return (found.view(-1, size, width).float() * scales[..., None]).to(dtype)


def quantise(x: Tensor, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """`x` in a type of 8 bits, and the scale of each of its rows. A row with a number that is not finite has such a scale."""
    exact = x.float()
    largest = exact.abs().amax(-1)
    scales = torch.where(largest < SMALLEST, 1.0, largest / LARGEST[dtype])
    scaled = exact / scales[..., None]
    return (torch.floor(scaled + 0.5) if dtype == torch.int8 else scaled).to(dtype), scales


class KVCache:
    """Keys and values of all layers and blocks."""

    def __init__(
        self, shape: Shape, blocks: int, block_size: int, device: torch.device, dtype: torch.dtype, *, stored: KvDtype = "same"
    ) -> None:
        self.block_size = block_size
        size = (shape.layers, blocks, shape.kv_heads, block_size, shape.head)

        def empty() -> Stored:
            scales = None if stored == "same" else torch.ones(size[:-1], device=device)
            return Stored(torch.zeros(size, device=device, dtype=_EIGHT_BITS.get(stored, dtype)), scales)

        self.keys, self.values = empty(), empty()
        self.layers = [(self.keys.layer(number), self.values.layer(number)) for number in range(shape.layers)]
        """Keys and values of each layer."""

    @staticmethod
    def block_bytes(shape: Shape, block_size: int, dtype: torch.dtype, stored: KvDtype = "same") -> int:
        """Bytes of one block in all layers."""
        of_row = shape.head * dtype.itemsize if stored == "same" else shape.head + torch.float32.itemsize
        return 2 * shape.layers * shape.kv_heads * block_size * of_row

    def copy(self, source: int, target: int) -> None:
        """Copy one block to another, in all layers."""
        self.keys.copy(source, target)
        self.values.copy(source, target)
