"""Triton kernels that add adapters to the outputs of a linear layer: to each tile of tokens its own.

A tile is some tokens that have one adapter, wherever they are. The kernels find its weights by addresses in a table, so that a
recorded graph serves whatever adapters the table names when it is replayed.
"""

# ruff: noqa: ANN001, ANN202, N803, PLR0913, PLR0917 - a kernel's arguments are pointers, and its constants are capitals

import torch
import triton
import triton.language as tl
from torch import Tensor

NONE = -1
"""The slot of a tile, or the token of a tile, that is not there."""
FIELDS = 4
"""Of an entry of the table: the addresses of A and B, and how many rows they have; the last is not used, and aligns the next."""
LEAST_ROWS = 16
"""A matrix product in a kernel has at least so many rows and columns."""
_MOST_ROWS = 64
_FEW = 16
"""Tiles of at most so many tokens are of decoding."""


@triton.jit
def _tile(tiles, TOKENS: tl.constexpr):
    """The slot of this program's tile, and its tokens."""
    first = tiles + tl.program_id(0) * (1 + TOKENS)
    return tl.load(first), tl.load(first + 1 + tl.arange(0, TOKENS)).to(tl.int64)


@triton.jit
def _pointer(place, TYPE: tl.constexpr):
    """The address that stands at a place. torch aligns what it allocates, so that 16 bytes are read at once."""
    return tl.multiple_of(tl.load(place).to(tl.pointer_type(TYPE)), 16)


@triton.jit
def _shrink(x, middle, count, table, table_stride, tiles, WIDTH: tl.constexpr, SHARE: tl.constexpr, MOST: tl.constexpr,
            TOKENS: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr, PRECISION: tl.constexpr):  # fmt: skip
    """`middle = x A'`, for some rows of A, and for a share of its columns."""
    slot, token = _tile(tiles, TOKENS)
    row = tl.program_id(1) * ROWS + tl.arange(0, ROWS)
    if slot >= 0:
        entry = table + slot * table_stride
        there = row < tl.load(entry + 2)
        a = _pointer(entry, x.dtype.element_ty)
        live = token >= 0
        sums = tl.zeros((TOKENS, ROWS), tl.float32)
        for begin in range(0, SHARE, COLUMNS):
            column = tl.program_id(2) * SHARE + begin + tl.arange(0, COLUMNS)
            inside = column < WIDTH
            own = tl.load(x + token[:, None] * WIDTH + column[None, :], mask=live[:, None] & inside[None, :], other=0.0)
            by = tl.load(a + row[:, None] * WIDTH + column[None, :], mask=there[:, None] & inside[None, :], other=0.0)
            sums += tl.dot(own, tl.trans(by), input_precision=PRECISION)
        place = tl.program_id(2).to(tl.int64) * count + token
        tl.store(middle + place[:, None] * MOST + row[None, :], sums, mask=live[:, None] & there[None, :])


@triton.jit
def _expand(middle, out, count, table, table_stride, tiles, WIDTH: tl.constexpr, SHARES: tl.constexpr, MOST: tl.constexpr,
            TOKENS: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr, PRECISION: tl.constexpr):  # fmt: skip
    """`out += middle B`, for some columns; `middle` is in shares, which are added first."""
    slot, token = _tile(tiles, TOKENS)
    column = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    if slot >= 0:
        entry = table + slot * table_stride
        rows = tl.load(entry + 2).to(tl.int32)
        b = _pointer(entry + 1, out.dtype.element_ty)
        live, inside = token >= 0, column < WIDTH
        sums = tl.zeros((TOKENS, COLUMNS), tl.float32)
        for begin in range(0, rows, ROWS):
            row = begin + tl.arange(0, ROWS)
            there = row < rows
            own = tl.zeros((TOKENS, ROWS), tl.float32)
            for share in tl.static_range(SHARES):
                place = (share * count + token)[:, None] * MOST + row[None, :]
                own += tl.load(middle + place, mask=live[:, None] & there[None, :], other=0.0)
            by = tl.load(b + row[:, None] * WIDTH + column[None, :], mask=there[:, None] & inside[None, :], other=0.0)
            sums += tl.dot(own.to(by.dtype), by, input_precision=PRECISION)
        at = out + token[:, None] * WIDTH + column[None, :]
        mask = live[:, None] & inside[None, :]
        sums += tl.load(at, mask=mask, other=0.0).to(tl.float32)
        tl.store(at, sums.to(out.dtype.element_ty), mask=mask)


def add_adapters(x: Tensor, out: Tensor, table: Tensor, most: int, tiles: Tensor) -> None:
    """Add to a layer's outputs `[tokens, out]` what adapters make of its inputs `[tokens, in]`, in place.

    `table` `[slots, FIELDS]` has the layer's entries, of at most `most` rows each. Each of `tiles` is a slot and its tokens.
    """
    x = x.contiguous()
    count, width = x.shape
    tokens = tiles.shape[1] - 1
    # Few tokens: time goes by waiting for memory, so that programs are many, and each waits once.
    share, rows, columns = (512, LEAST_ROWS, 512) if tokens <= _FEW else (width, min(most, _MOST_ROWS), 64)
    shares = triton.cdiv(width, share)
    middle = torch.empty((shares, count, most), device=x.device, dtype=torch.float32)
    shared = {"MOST": most, "TOKENS": tokens, "PRECISION": "ieee" if x.dtype == torch.float32 else "tf32", "num_warps": 4}
    _shrink[len(tiles), triton.cdiv(most, rows), shares](
        x, middle, count, table, table.stride(0), tiles, WIDTH=width, SHARE=share, ROWS=rows, COLUMNS=columns, **shared
    )
    _expand[len(tiles), triton.cdiv(out.shape[1], 128)](
        middle, out, count, table, table.stride(0), tiles, WIDTH=out.shape[1], SHARES=shares, ROWS=LEAST_ROWS, COLUMNS=128,
        num_stages=2, **shared
    )  # fmt: skip
