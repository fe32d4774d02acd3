"""Dequantise the block formats of llama.cpp.

A format packs a fixed number of weights into a block of bytes. Each function takes `[blocks, bytes]` and returns
`[blocks, weights]` in fp32.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


@dataclass(frozen=True, slots=True)
class Quant:
    """A block format."""

    name: str
    weights: int
    size_bytes: int
    unpack: Callable[[Array], Array]


def _half(blocks: Array, at: int) -> Array:
    """The fp16 number at byte `at` of every block, `[blocks, 1]`."""
    return np.ascontiguousarray(blocks[:, at : at + 2]).view("<f2").astype(np.float32)


def _nibbles(packed: Array) -> Array:
    """The low nibbles of all bytes, then the high nibbles."""
    return np.concatenate((packed & 15, packed >> 4), axis=-1)


def _fifth_bits(packed: Array) -> Array:
    """One bit per weight from 4 bytes, shifted to the fifth bit."""
    return np.unpackbits(packed, axis=-1, bitorder="little") << 4


def _q5_0(blocks: Array) -> Array:
    values = _nibbles(blocks[:, 6:]) | _fifth_bits(blocks[:, 2:6])
    return _half(blocks, 0) * (values.astype(np.float32) - 16)


def _q5_1(blocks: Array) -> Array:
    values = _nibbles(blocks[:, 8:]) | _fifth_bits(blocks[:, 4:8])
    return _half(blocks, 0) * values + _half(blocks, 2)


def _scales_and_minima(packed: Array) -> tuple[Array, Array]:
    """Eight scales and eight minima of 6 bits each from 12 bytes; the last four of each are split over two places."""
    low, middle, high = packed[:, :4], packed[:, 4:8], packed[:, 8:]
    scales = np.concatenate((low & 63, (high & 15) | (low >> 6 << 4)), axis=-1)
    minima = np.concatenate((middle & 63, (high >> 4) | (middle >> 6 << 4)), axis=-1)
    return scales, minima


def _k_scaled(blocks: Array, values: Array) -> Array:
    """Eight runs of 32 weights, each with its own scale and minimum."""
    scales, minima = _scales_and_minima(blocks[:, 4:16])
    scaled = (_half(blocks, 0) * scales)[:, :, None] * values.reshape(-1, 8, 32)
    return (scaled - (_half(blocks, 2) * minima)[:, :, None]).reshape(-1, 256)


def _q5_k(blocks: Array) -> Array:
    high = np.unpackbits(blocks[:, 16:48].reshape(-1, 32, 1), axis=-1, bitorder="little")
    low = _nibbles(blocks[:, 48:].reshape(-1, 4, 32)).reshape(-1, 8, 32)
    return _k_scaled(blocks, low | (high.transpose(0, 2, 1) << 4))


def _q6_k(blocks: Array) -> Array:
    low = _nibbles(blocks[:, :128].reshape(-1, 2, 64)).reshape(-1, 8, 32)
    shifts = np.array([0, 2, 4, 6], np.uint8)[:, None]
    high = ((blocks[:, 128:192].reshape(-1, 2, 1, 32) >> shifts) & 3).reshape(-1, 8, 32)
    scales = _half(blocks, 208) * blocks[:, 192:208].view(np.int8)
    values = (low | (high << 4)).astype(np.float32) - 32
    return (scales[:, :, None] * values.reshape(-1, 16, 16)).reshape(-1, 256)


QUANTS: dict[int, Quant] = {
    0: Quant("F32", 1, 4, lambda blocks: blocks.view("<f4").astype(np.float32)),
    1: Quant("F16", 1, 2, lambda blocks: blocks.view("<f2").astype(np.float32)),
    2: Quant("Q4_0", 32, 18, lambda blocks: _half(blocks, 0) * (_nibbles(blocks[:, 2:]).astype(np.float32) - 8)),
    3: Quant("Q4_1", 32, 20, lambda blocks: _half(blocks, 0) * _nibbles(blocks[:, 4:]) + _half(blocks, 2)),
    6: Quant("Q5_0", 32, 22, _q5_0),
    7: Quant("Q5_1", 32, 24, _q5_1),
    8: Quant("Q8_0", 32, 34, lambda blocks: _half(blocks, 0) * blocks[:, 2:].view(np.int8)),
    12: Quant("Q4_K", 256, 144, lambda blocks: _k_scaled(blocks, _nibbles(blocks[:, 16:].reshape(-1, 4, 32)))),
    13: Quant("Q5_K", 256, 176, _q5_k),
    14: Quant("Q6_K", 256, 210, _q6_k),
    30: Quant("BF16", 1, 2, lambda blocks: (blocks.view("<u2").astype(np.uint32) << 16).view(np.float32)),
}
"""By type number in GGUF files."""


def unpack_blocks(quant: Quant, data: Any, shape: tuple[int, ...]) -> Array:
    """The weights in a buffer of blocks, in the given shape."""
    blocks = np.frombuffer(data, np.uint8).reshape(-1, quant.size_bytes)
    return quant.unpack(blocks).reshape(shape)
