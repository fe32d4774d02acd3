"""Triton kernels: norms, rotation, gated activation, attention over blocks of KV, and sampling of the next tokens.

One attention kernel serves whole prompts, chunks and decoding. A *tile* is a matrix of some query tokens of one sequence with all
heads that share a KV head. Decoding has one tile per sequence, with one query, or with a few if tokens are guessed; with too few
tiles to fill the device, each sequence is split over several programs, and a second kernel joins their results. The last two
kernels sample tokens from rows of logits without storing the probabilities.
"""

# ruff: noqa: ANN001, ANN202, N803, N806, PLR0913, PLR0917 - a kernel's arguments are pointers, and its constants are capitals

import torch
import triton
import triton.language as tl
from torch import Tensor

from sandlot.model.engine.cache import LARGEST, SMALLEST, Stored

_LOG2_E = 1.4426950408889634
_LARGEST_INT8, _LARGEST_FP8 = tl.constexpr(LARGEST[torch.int8]), tl.constexpr(LARGEST[torch.float8_e4m3fn])
_SMALLEST = tl.constexpr(SMALLEST)
_LEAST_ROWS = 16
"""A matrix product in a kernel has at least so many rows."""


@triton.jit
def _add_norm(x, delta, weight, out, eps, WIDTH: tl.constexpr, WIDTH_UP: tl.constexpr, ADD: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    column = tl.arange(0, WIDTH_UP)
    inside = column < WIDTH
    value = tl.load(x + row * WIDTH + column, mask=inside, other=0.0)
    if ADD:
        value = (value.to(tl.float32) + tl.load(delta + row * WIDTH + column, mask=inside, other=0.0)).to(x.dtype.element_ty)
        tl.store(x + row * WIDTH + column, value, mask=inside)
    exact = value.to(tl.float32)
    exact = exact * tl.rsqrt(tl.sum(exact * exact, 0) / WIDTH + eps)
    by = tl.load(weight + column, mask=inside, other=0.0)
    tl.store(out + row * WIDTH + column, by * exact.to(by.dtype), mask=inside)


@triton.jit
def _scaled(x, by, inverse, NORM: tl.constexpr):
    """Columns of heads, normalised and rounded as the plain norm does."""
    if NORM:
        x = by[None, :] * (x.to(tl.float32) * inverse[:, None]).to(by.dtype)
    return x.to(tl.float32)


@triton.jit
def _in_8_bits(x, TYPE: tl.constexpr):
    """Numbers that were divided by their scale, rounded."""
    if tl.int8 == TYPE:
        x = tl.floor(x + 0.5)
    return x.to(TYPE)


@triton.jit
def _rotate(qkv, cos, sin, q_weight, k_weight, q, k, cache_k, cache_v, scales_k, scales_v, slots, eps, HEADS: tl.constexpr,
            KV_HEADS: tl.constexpr, HALF: tl.constexpr, BLOCK: tl.constexpr, ROWS: tl.constexpr, NORM: tl.constexpr,
            KEYS: tl.constexpr):  # fmt: skip
    # Column c is rotated with column c + HALF, by one angle.
    WIDTH: tl.constexpr = 2 * HALF
    token = tl.program_id(0).to(tl.int64)
    head = (tl.program_id(1) * ROWS + tl.arange(0, ROWS))[:, None]
    low = tl.arange(0, HALF)[None, :]
    slot = tl.load(slots + token).to(tl.int64)
    is_q, is_k, inside = head < HEADS, (head >= HEADS) & (head < HEADS + KV_HEADS), head < HEADS + 2 * KV_HEADS
    own = qkv + (token * (HEADS + 2 * KV_HEADS) + head) * WIDTH + low
    a, b = tl.load(own, mask=inside, other=0.0), tl.load(own + HALF, mask=inside, other=0.0)
    exact_a, exact_b = a.to(tl.float32), b.to(tl.float32)
    inverse = tl.rsqrt((tl.sum(exact_a * exact_a, 1) + tl.sum(exact_b * exact_b, 1)) / WIDTH + eps)
    column = tl.arange(0, HALF)
    q_a, q_b = tl.load(q_weight + column), tl.load(q_weight + HALF + column)
    k_a, k_b = tl.load(k_weight + column), tl.load(k_weight + HALF + column)
    x = tl.where(is_q, _scaled(a, q_a, inverse, NORM), _scaled(a, k_a, inverse, NORM))
    y = tl.where(is_q, _scaled(b, q_b, inverse, NORM), _scaled(b, k_b, inverse, NORM))
    c = tl.load(cos + token * WIDTH + column).to(tl.float32)[None, :]
    s = tl.load(sin + token * WIDTH + column).to(tl.float32)[None, :]
    turned_a, turned_b = (x * c - y * s).to(a.dtype), (y * c + x * s).to(a.dtype)
    to_q = q + (token * HEADS + head) * WIDTH + low
    tl.store(to_q, turned_a, mask=is_q)
    tl.store(to_q + HALF, turned_b, mask=is_q)
    key, value, is_v = head - HEADS, head - HEADS - KV_HEADS, (head >= HEADS + KV_HEADS) & inside
    if KEYS:
        tl.store(k + (token * KV_HEADS + key) * WIDTH + low, turned_a, mask=is_k)
        tl.store(k + (token * KV_HEADS + key) * WIDTH + low + HALF, turned_b, mask=is_k)
    first = slot // BLOCK * KV_HEADS * BLOCK + slot % BLOCK  # of head 0, in rows of one token and head
    stored_a, stored_b = tl.where(is_k, turned_a, a), tl.where(is_k, turned_b, b)
    if scales_k is not None:
        stored: tl.constexpr = cache_k.dtype.element_ty
        exact_a, exact_b = stored_a.to(tl.float32), stored_b.to(tl.float32)
        largest = tl.max(tl.maximum(tl.abs(exact_a), tl.abs(exact_b)), 1)[:, None]
        by = tl.where(largest < _SMALLEST, 1.0, largest / (_LARGEST_INT8 if stored == tl.int8 else _LARGEST_FP8))
        stored_a, stored_b = _in_8_bits(exact_a / by, stored), _in_8_bits(exact_b / by, stored)
        tl.store(scales_k + first + key * BLOCK, by, mask=is_k)
        tl.store(scales_v + first + value * BLOCK, by, mask=is_v)
    to_k, to_v = cache_k + first * WIDTH + key * BLOCK * WIDTH + low, cache_v + first * WIDTH + value * BLOCK * WIDTH + low
    tl.store(to_k, stored_a, mask=is_k)
    tl.store(to_k + HALF, stored_b, mask=is_k)
    tl.store(to_v, stored_a, mask=is_v)
    tl.store(to_v + HALF, stored_b, mask=is_v)


@triton.jit
def _gate(both, out, WIDTH: tl.constexpr, COLUMNS: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    column = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    inside = column < WIDTH
    gate = tl.load(both + row * 2 * WIDTH + column, mask=inside, other=0.0).to(tl.float32)
    up = tl.load(both + row * 2 * WIDTH + WIDTH + column, mask=inside, other=0.0)
    open_ = (gate / (1.0 + tl.exp(-gate))).to(up.dtype)
    tl.store(out + row * WIDTH + column, open_ * up, mask=inside)


@triton.jit
def _load(cache_k, cache_v, scales_k, scales_v, row_0, n, column, there, WIDTH: tl.constexpr, MASKED: tl.constexpr):
    """One block of keys and values, and their scales if they have any."""
    where = row_0 * WIDTH + n[:, None] * WIDTH + column[None, :]
    scale_k, scale_v = n, n  # not used without scales
    if MASKED:
        k, v = tl.load(cache_k + where, mask=there[:, None], other=0.0), tl.load(cache_v + where, mask=there[:, None], other=0.0)
        if scales_k is not None:
            scale_k = tl.load(scales_k + row_0 + n, mask=there, other=0.0)
            scale_v = tl.load(scales_v + row_0 + n, mask=there, other=0.0)
    else:
        k, v = tl.load(cache_k + where), tl.load(cache_v + where)
        if scales_k is not None:
            scale_k, scale_v = tl.load(scales_k + row_0 + n), tl.load(scales_v + row_0 + n)
    return k, v, scale_k, scale_v


@triton.jit
def _fold(own, k, v, scale_k, scale_v, seen, most, total, sums, scale, MASKED: tl.constexpr, SCALED: tl.constexpr,
          PRECISION: tl.constexpr):  # fmt: skip
    """One block of keys and values added to the running softmax."""
    scores = tl.dot(own, tl.trans(k.to(own.dtype)), input_precision=PRECISION) * scale
    if SCALED:
        scores *= scale_k[None, :]
    if MASKED:
        scores = tl.where(seen, scores, float("-inf"))
    more = tl.maximum(most, tl.max(scores, 1))
    shift = more
    if MASKED:  # a row that has seen nothing yet
        shift = tl.where(more == float("-inf"), 0.0, more)
    p = tl.exp2(scores - shift[:, None])
    old = tl.exp2(most - shift)
    total = total * old + tl.sum(p, 1)
    if SCALED:
        p *= scale_v[None, :]
    return more, total, sums * old[:, None] + tl.dot(p.to(own.dtype), v.to(own.dtype), input_precision=PRECISION)


@triton.jit
def _attend(q, cache_k, cache_v, scales_k, scales_v, out, lse, tables, lengths, starts, tiles, scale, q_stride, table_stride,
            KV_HEADS: tl.constexpr, GROUP: tl.constexpr, WIDTH: tl.constexpr, BLOCK: tl.constexpr, ROWS: tl.constexpr,
            SPLITS: tl.constexpr, DECODE: tl.constexpr, STAGES: tl.constexpr, PRECISION: tl.constexpr):  # fmt: skip
    SCALED: tl.constexpr = scales_k is not None
    tile, kv, split = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    if DECODE:
        sequence, first = tile, 0
    else:
        sequence, first = tl.load(tiles + 2 * tile), tl.load(tiles + 2 * tile + 1)
    if starts is None:
        begin, count = sequence, 1
    else:
        begin = tl.load(starts + sequence)
        count = tl.load(starts + sequence + 1) - begin
    length = tl.load(lengths + sequence)
    row = tl.arange(0, ROWS)
    query = first + row // GROUP
    live = (query < count) & (row // GROUP < ROWS // GROUP)
    position = length - count + query
    column = tl.arange(0, WIDTH)
    head = kv * GROUP + row % GROUP
    own = tl.load(q + (begin + query).to(tl.int64)[:, None] * q_stride + head[:, None] * WIDTH + column[None, :],
                  mask=live[:, None], other=0.0)  # fmt: skip

    end = tl.minimum(length, length - count + first + ROWS // GROUP)
    share = tl.cdiv(tl.cdiv(end, BLOCK), SPLITS)
    low = split * share
    high = tl.minimum(low + share, tl.cdiv(end, BLOCK))
    if own.dtype == tl.bfloat16 and cache_k.dtype.element_ty == tl.float8e4nv:
        own = own.to(tl.float16)  # a GPU makes fp16 of fp8 in one instruction, and bf16 in several
    n = tl.arange(0, BLOCK)
    most = tl.full((ROWS,), float("-inf"), tl.float32)
    total = tl.zeros((ROWS,), tl.float32)
    sums = tl.zeros((ROWS, WIDTH), tl.float32)
    edge = low
    if not DECODE:  # blocks that every query of the tile sees whole need no mask
        edge = tl.minimum(high, (length - count + first + 1) // BLOCK)
        for number in tl.range(low, edge, num_stages=STAGES):
            block = tl.load(tables + sequence * table_stride + number).to(tl.int64)
            row_0 = (block * KV_HEADS + kv) * BLOCK
            k, v, scale_k, scale_v = _load(cache_k, cache_v, scales_k, scales_v, row_0, n, column, n, WIDTH, False)  # noqa: FBT003
            most, total, sums = _fold(own, k, v, scale_k, scale_v, live, most, total, sums, scale, False, SCALED, PRECISION)  # noqa: FBT003
    for number in tl.range(edge, high, num_stages=STAGES):
        block = tl.load(tables + sequence * table_stride + number).to(tl.int64)
        row_0 = (block * KV_HEADS + kv) * BLOCK
        there = number * BLOCK + n < end  # the rest of the last block is not read
        k, v, scale_k, scale_v = _load(cache_k, cache_v, scales_k, scales_v, row_0, n, column, there, WIDTH, True)  # noqa: FBT003
        seen = (number * BLOCK + n)[None, :] <= position[:, None]
        most, total, sums = _fold(own, k, v, scale_k, scale_v, seen, most, total, sums, scale, True, SCALED, PRECISION)  # noqa: FBT003
    sums = sums / tl.where(total == 0.0, 1.0, total)[:, None]
    place = (begin + query).to(tl.int64) * (KV_HEADS * GROUP) + head
    if SPLITS == 1:
        tl.store(out + place[:, None] * WIDTH + column[None, :], sums.to(out.dtype.element_ty), mask=live[:, None])
    else:
        tl.store(out + (place[:, None] * SPLITS + split) * WIDTH + column[None, :], sums, mask=live[:, None])
        tl.store(lse + place * SPLITS + split, most + tl.log2(total), mask=live)


@triton.jit
def _join(parts, lse, out, SPLITS: tl.constexpr, SPLITS_UP: tl.constexpr, WIDTH: tl.constexpr):
    place = tl.program_id(0).to(tl.int64)
    split = tl.arange(0, SPLITS_UP)
    column = tl.arange(0, WIDTH)
    inside = split < SPLITS
    weight = tl.load(lse + place * SPLITS + split, mask=inside, other=float("-inf"))
    weight = tl.exp2(weight - tl.max(weight, 0))
    part = tl.load(parts + (place * SPLITS + split[:, None]) * WIDTH + column[None, :], mask=inside[:, None], other=0.0)
    joined = tl.sum(part * weight[:, None], 0) / tl.sum(weight, 0)
    tl.store(out + place * WIDTH + column, joined.to(out.dtype.element_ty))


@triton.jit
def _survey(logits, temperature, most, total, best, vocabulary, CHUNK: tl.constexpr, CHUNKS: tl.constexpr):
    row, chunk = tl.program_id(0).to(tl.int64), tl.program_id(1)
    column = chunk * CHUNK + tl.arange(0, CHUNK)
    x = tl.load(logits + row * vocabulary + column, mask=column < vocabulary, other=float("-inf"))
    heat = tl.load(temperature + row)
    x = x / tl.where(heat == 0.0, 1.0, heat)
    top = tl.max(x, 0)
    tl.store(most + row * CHUNKS + chunk, top)
    tl.store(best + row * CHUNKS + chunk, tl.min(tl.where(x == top, column, vocabulary), 0))
    tl.store(total + row * CHUNKS + chunk, tl.sum(tl.exp(x - tl.where(top == float("-inf"), 0.0, top)), 0))


@triton.jit
def _draw(logits, temperature, uniform, most, total, best, ids, logprobs, vocabulary, CHUNK: tl.constexpr, CHUNKS: tl.constexpr,
          CHUNKS_UP: tl.constexpr):  # fmt: skip
    row = tl.program_id(0).to(tl.int64)
    heat = tl.load(temperature + row)
    number = tl.arange(0, CHUNKS_UP)
    here = number < CHUNKS
    tops = tl.load(most + row * CHUNKS + number, mask=here, other=float("-inf"))
    top = tl.max(tops, 0)
    mass = tl.load(total + row * CHUNKS + number, mask=here, other=0.0) * tl.exp(tops - top)
    whole = tl.sum(mass, 0)
    if heat == 0.0:
        found = tl.load(best + row * CHUNKS + number, mask=here & (tops == top), other=vocabulary)
        tl.store(ids + row, tl.min(found, 0))
        tl.store(logprobs + row, 0.0)  # greedy: probability 1
    else:
        aim = tl.load(uniform + row) * whole
        upto = tl.cumsum(mass, 0)
        # Rounding may leave the target above the last sum; then take the last chunk with any mass.
        chunk = tl.minimum(tl.sum((upto <= aim).to(tl.int32), 0), tl.max(tl.where(mass > 0.0, number, 0), 0))
        aim = aim - tl.sum(tl.where(number < chunk, mass, 0.0), 0)
        column = chunk * CHUNK + tl.arange(0, CHUNK)
        x = tl.load(logits + row * vocabulary + column, mask=column < vocabulary, other=float("-inf")) / heat
        p = tl.exp(x - top)
        inside = tl.minimum(
            tl.sum((tl.cumsum(p, 0) <= aim).to(tl.int32), 0), tl.max(tl.where(p > 0.0, tl.arange(0, CHUNK), 0), 0)
        )
        chosen = tl.max(tl.where(tl.arange(0, CHUNK) == inside, x, float("-inf")), 0)
        tl.store(ids + row, chunk * CHUNK + inside)
        tl.store(logprobs + row, chosen - top - tl.log(whole))


def add_norm(x: Tensor, delta: Tensor | None, weight: Tensor, eps: float) -> Tensor:
    """Add `delta` to `x` in place, if given, and return the RMS norm of the sum times the weight."""
    out = torch.empty_like(x)
    width = x.shape[1]
    _add_norm[(len(x),)](x, x if delta is None else delta, weight, out, eps, WIDTH=width, WIDTH_UP=triton.next_power_of_2(width),
                         ADD=delta is not None, num_warps=4)  # fmt: skip
    return out


def rotate(qkv: Tensor, cos: Tensor, sin: Tensor, norms: tuple[Tensor, Tensor, float] | None, keys: Stored, values: Stored,
           slots: Tensor, k: Tensor | None = None) -> Tensor:  # fmt: skip
    """Split `qkv` `[tokens, (heads + 2 kv_heads) * head]`: return rotated queries, and write keys and values to their slots.

    `norms` are the weights of the queries' and the keys' norm, and epsilon; `keys` and `values` are those of one layer.
    Keys are also written to `k` `[tokens, kv_heads, head]` if it is given.
    """
    _, kv_heads, block, width = keys.numbers.shape
    heads = qkv.shape[1] // width - 2 * kv_heads
    q = torch.empty((len(qkv), heads, width), device=qkv.device, dtype=qkv.dtype)
    q_weight, k_weight, eps = norms or (qkv, qkv, 0.0)
    rows = 8
    _rotate[(len(qkv), triton.cdiv(heads + 2 * kv_heads, rows))](
        qkv, cos, sin, q_weight, k_weight, q, q if k is None else k, keys.numbers, values.numbers, keys.scales, values.scales,
        slots, eps, HEADS=heads, KV_HEADS=kv_heads, HALF=width // 2, BLOCK=block, ROWS=rows, NORM=norms is not None,
        KEYS=k is not None, num_warps=4)  # fmt: skip
    return q


def gate(both: Tensor) -> Tensor:
    """`silu(gate) * up` of `[tokens, 2 * width]`, which has the gates in its first half."""
    width = both.shape[1] // 2
    out = torch.empty((len(both), width), device=both.device, dtype=both.dtype)
    columns = min(1024, triton.next_power_of_2(width))
    _gate[(len(both), triton.cdiv(width, columns))](both, out, WIDTH=width, COLUMNS=columns, num_warps=4)
    return out


def attend_prompts(q: Tensor, keys: Stored, values: Stored, tables: Tensor, lengths: Tensor, starts: Tensor, tiles: Tensor,
                   rows: int = 128, out: Tensor | None = None) -> Tensor:  # fmt: skip
    """Attention of prompts and chunks: `tiles` are pairs (sequence, first query), `rows // group` queries each.

    Queries that are in no tile are left as they are in `out`.
    """
    _, kv_heads, block, width = keys.numbers.shape
    out = torch.empty(q.shape, device=q.device, dtype=q.dtype) if out is None else out
    _attend[(len(tiles), kv_heads, 1)](
        q, keys.numbers, values.numbers, keys.scales, values.scales, out, out, tables, lengths, starts, tiles,
        width**-0.5 * _LOG2_E, q.stride(0), tables.stride(0), KV_HEADS=kv_heads, GROUP=q.shape[1] // kv_heads, WIDTH=width,
        BLOCK=block, ROWS=rows, SPLITS=1, DECODE=False, STAGES=3, PRECISION=_precision(q), num_warps=4)  # fmt: skip
    return out


def attend_decoding(q: Tensor, keys: Stored, values: Stored, tables: Tensor, lengths: Tensor, splits: int = 1,
                    starts: Tensor | None = None, most: int = 1) -> Tensor:  # fmt: skip
    """Attention of the newest tokens of sequences: `q` is `[tokens, heads, head]`.

    Each sequence has one token, or at most `most`: those from one of `starts` to the next. A sequence of length 0 has none. What
    is returned for tokens that are in no sequence means nothing.
    """
    _, kv_heads, block, width = keys.numbers.shape
    count, heads = q.shape[0], q.shape[1]
    group = heads // kv_heads
    rows = decoding_rows(group, most)
    out = torch.empty(q.shape, device=q.device, dtype=q.dtype)
    parts, lse = out, out
    if splits > 1:
        parts = torch.empty((count, heads, splits, width), device=q.device, dtype=torch.float32)
        lse = torch.empty((count, heads, splits), device=q.device, dtype=torch.float32)
    _attend[(len(lengths), kv_heads, splits)](
        q, keys.numbers, values.numbers, keys.scales, values.scales, parts, lse, tables, lengths, starts, lengths,
        width**-0.5 * _LOG2_E, q.stride(0), tables.stride(0), KV_HEADS=kv_heads, GROUP=group, WIDTH=width, BLOCK=block,
        ROWS=rows, SPLITS=splits, DECODE=True, STAGES=3, PRECISION=_precision(q), num_warps=2 if rows == _LEAST_ROWS else 4,
    )  # fmt: skip
    if splits > 1:
        _join[(count * heads,)](
            parts, lse, out, SPLITS=splits, SPLITS_UP=triton.next_power_of_2(splits), WIDTH=width, num_warps=1
        )
    return out


def decoding_rows(group: int, most: int) -> int:
    """Rows of a tile of decoding, which has all queries of a sequence: `most` of them, each of `group` heads."""
    return max(_LEAST_ROWS, triton.next_power_of_2(group * most))


def draw(logits: Tensor, temperature: Tensor, uniform: Tensor) -> tuple[Tensor, Tensor]:
    """Sample one token per row by inverse CDF at `uniform`, greedily at temperature 0; returns ids and log-probabilities."""
    rows, vocabulary = logits.shape
    chunk = min(4096, triton.next_power_of_2(vocabulary))
    chunks = triton.cdiv(vocabulary, chunk)
    most, total = torch.empty((2, rows, chunks), device=logits.device, dtype=torch.float32)
    best = torch.empty((rows, chunks), device=logits.device, dtype=torch.int32)
    ids = torch.empty(rows, device=logits.device, dtype=torch.int32)
    logprobs = torch.empty(rows, device=logits.device, dtype=torch.float32)
    _survey[(rows, chunks)](logits, temperature, most, total, best, vocabulary, CHUNK=chunk, CHUNKS=chunks)
    _draw[(rows,)](logits, temperature, uniform.float(), most, total, best, ids, logprobs, vocabulary, CHUNK=chunk, CHUNKS=chunks,
                   CHUNKS_UP=triton.next_power_of_2(chunks))  # fmt: skip
    return ids, logprobs


def _precision(q: Tensor) -> str:
    return "ieee" if q.dtype == torch.float32 else "tf32"
