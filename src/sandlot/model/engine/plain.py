# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
"""The CPU runner: the decoder in plain PyTorch over paged KV. It also runs in fp64, for tests.

Heads that share a KV head are stacked as query rows, so keys and values are not repeated. Decoding sequences of similar length
attend together, also those with guesses, prompts in groups of equal size.
"""

from collections.abc import Callable
from contextlib import nullcontext
from typing import cast

import torch
import torch.nn.functional as F  # noqa: N812 - the name everyone knows
from torch import Tensor, nn

from sandlot.model.engine.batch import Batch
from sandlot.model.engine.blocks import KvDtype
from sandlot.model.engine.cache import KVCache, Stored
from sandlot.model.nn.decoder import Attend, Decoder
from sandlot.model.nn.mixed import AdapterWeights, Share, adapters_applied
from sandlot.model.nn.packed import PackedLinear, can_add_in_fp32

Part = Callable[[Tensor, Stored, Stored, Tensor], None]
"""(queries of all tokens, one layer's keys, its values, output to write to)."""

_BUCKET = 1.5
"""Sequences attend together if the longest is at most this many times the shortest."""

_FEW = 2
"""For up to this many tokens the head is faster in fp32 than in two passes of bf16."""


class PlainRunner:
    """Runs batches on the device of the decoder's weights."""

    ahead = False

    def __init__(self, decoder: Decoder, *, blocks: int, block_size: int = 16, kv_dtype: KvDtype = "same") -> None:
        weight = decoder.embedding.weight
        self._decoder = decoder.eval()
        self._head = weight
        self._head_from = (0, 0)
        self._has_adapted = False
        """Whether an adapter has written to the cache. What it wrote may be anything, and stays there after it is gone."""
        self.cache = KVCache(decoder.shape, blocks, block_size, weight.device, weight.dtype, stored=kv_dtype)

    @torch.inference_mode()
    def forward(self, batch: Batch, ids: Tensor | None = None) -> Tensor:
        """Logits of the wanted tokens, in fp32 or fp64."""
        self._has_adapted |= bool(batch.adapters)
        with adapters_applied(self._decoder, _shares(batch)) if batch.adapters else nullcontext():
            hidden = self._decoder(batch.ids if ids is None else ids, batch.positions, self._attend(batch))
        return self._logits(hidden[batch.wanted])

    def place(self, weights: AdapterWeights) -> AdapterWeights:
        """As they are: weights are read to the CPU."""
        return weights

    def _logits(self, hidden: Tensor) -> Tensor:
        """Logits in fp32 at least: in bf16 the spacing at 30 is 1/8."""
        weight = self._decoder.head.weight
        if weight.dtype in {torch.float32, torch.float64}:
            return self._decoder.logits(hidden)
        head = cast("nn.Module", self._decoder.head)
        if len(hidden) > _FEW and isinstance(head, PackedLinear) and can_add_in_fp32():
            return head.apply_in_fp32(hidden)
        now = (weight.data_ptr(), weight._version)  # noqa: SLF001 - torch has no other name for it
        if self._head_from != now:
            self._head, self._head_from = weight.float(), now
        return hidden.float() @ self._head.T

    def _attend(self, batch: Batch) -> Attend:
        parts = self._parts(batch)
        where, offsets = batch.slots // self.cache.block_size, batch.slots % self.cache.block_size

        def attend(layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
            keys, values = self.cache.layers[layer]
            keys.write(where, offsets, k)
            values.write(where, offsets, v)
            out = torch.empty_like(q)
            for part in parts:
                part(q, keys, values, out)
            return out

        return attend

    def _parts(self, batch: Batch) -> list[Part]:
        """Group the sequences that attend together."""
        starts, lengths = batch.starts.tolist(), batch.lengths.tolist()
        prompts: dict[tuple[int, int], list[int]] = {}
        decoding: dict[int, list[int]] = {}
        num_wanted = _num_wanted(batch)
        for index, length in enumerate(lengths):
            count = starts[index + 1] - starts[index]
            if count == 1 or num_wanted[index] > 1:
                decoding.setdefault((count - 1).bit_length(), []).append(index)
            else:
                prompts.setdefault((count, length), []).append(index)
        parts = [self._prompts([starts[index] for index in group], *size, batch.tables[group]) for size, group in prompts.items()]
        for rest in decoding.values():
            rest.sort(key=lengths.__getitem__)
            while rest:
                shortest = lengths[rest[0]]
                group = [index for index in rest if lengths[index] <= max(_BUCKET * shortest, shortest + self.cache.block_size)]
                del rest[: len(group)]
                at, ends = [starts[index] for index in group], [lengths[index] for index in group]
                counts = [starts[index + 1] - starts[index] for index in group]
                one = max(counts) == 1
                tables = batch.tables[group]
                parts.append(self._decoding(at, ends, tables) if one else self._guessed(at, counts, ends, tables))
        return parts

    def _prompts(self, at: list[int], count: int, length: int, tables: Tensor) -> Part:
        """Causal attention of chunks of equal size and length."""
        gather = self._gather(tables, [length] * len(at))
        where = torch.tensor(at, device=tables.device)[:, None] + torch.arange(count, device=tables.device)
        mask = torch.ones(count, length, dtype=torch.bool, device=tables.device).tril(length - count)

        def part(q: Tensor, keys: Stored, values: Stored, out: Tensor) -> None:
            k, v = gather(keys, q.dtype), gather(values, q.dtype)
            group = q.shape[1] // k.shape[1]
            k, v = (x.flatten(0, 1)[:, None].expand(-1, group, -1, -1) for x in (k, v))
            queries = q[where].unflatten(2, (-1, group)).permute(0, 2, 3, 1, 4).flatten(0, 1)
            seen = F.scaled_dot_product_attention(queries, k, v, None if count == length else mask, is_causal=count == length)
            out[where] = seen.unflatten(0, (len(at), -1)).permute(0, 3, 1, 2, 4).flatten(2, 3)

        return part

    def _decoding(self, at: list[int], lengths: list[int], tables: Tensor) -> Part:
        """Attention of one query per sequence."""
        longest = max(lengths)
        gather = self._gather(tables, lengths)
        where, ends = torch.tensor(at, device=tables.device), torch.tensor(lengths, device=tables.device)
        seen = torch.arange(longest, device=tables.device) < ends[:, None]
        mask = None if min(lengths) == longest else seen[:, None, None, :]

        def part(q: Tensor, keys: Stored, values: Stored, out: Tensor) -> None:
            k, v = gather(keys, q.dtype), gather(values, q.dtype)
            queries = q[where].unflatten(1, (k.shape[1], -1))
            out[where] = F.scaled_dot_product_attention(queries, k, v, mask).flatten(1, 2)

        return part

    def _guessed(self, at: list[int], counts: list[int], lengths: list[int], tables: Tensor) -> Part:
        """Attention of a few queries per sequence: its newest token and guesses after it. Missing ones repeat the last."""
        longest, most, device = max(lengths), max(counts), tables.device
        gather = self._gather(tables, lengths)
        first, count, ends = (torch.tensor(x, device=device)[:, None] for x in (at, counts, lengths))
        number = torch.arange(most, device=device).expand(len(at), -1)
        is_own = number < count
        number = torch.minimum(number, count - 1)
        where = first + number
        seen = torch.arange(longest, device=device) < (ends - count + number + 1)[:, :, None]
        own = where[is_own]
        group = self._decoder.shape.heads // self._decoder.shape.kv_heads
        mask = seen[:, None, None].expand(-1, -1, group, -1, -1).flatten(2, 3)

        def part(q: Tensor, keys: Stored, values: Stored, out: Tensor) -> None:
            k, v = gather(keys, q.dtype), gather(values, q.dtype)
            queries = q[where].unflatten(2, (-1, group)).permute(0, 2, 3, 1, 4).flatten(2, 3)
            found = F.scaled_dot_product_attention(queries, k, v, mask)
            out[own] = found.unflatten(2, (group, most)).permute(0, 3, 1, 2, 4).flatten(2, 3)[is_own]

        return part

    def _gather(self, tables: Tensor, lengths: list[int]) -> Callable[[Stored, torch.dtype], Tensor]:
        """Gather one layer's `[blocks, kv_heads, block_size, head]` to `[sequences, kv_heads, longest, head]`, in one copy.

        Beyond a sequence's length its table may hold any block number, and its last block what others have left there. No mask
        hides an adapter's NaN, or a product that is infinite, so these places become zero.
        """
        heads, size, width = self.cache.keys.numbers.shape[2:]
        longest = max(lengths)
        whole = -(-longest // size)
        tables = tables[:, :whole].long()
        beyond = self._beyond(tables, lengths) if self._has_adapted and min(lengths) < longest else None
        flat = (tables[:, None] * heads + torch.arange(heads, device=tables.device)[:, None]).flatten()

        def gather(layer: Stored, dtype: torch.dtype) -> Tensor:
            blocks = layer.read(flat, dtype)
            if beyond is not None:
                blocks.view(-1, width).index_fill_(0, beyond, 0.0)
            return blocks.view(len(tables), heads, -1, width)[:, :, :longest]

        return gather

    def _beyond(self, tables: Tensor, lengths: list[int]) -> Tensor:
        """The places beyond each sequence's length in what is gathered, as rows of one head and token."""
        heads, size = self.cache.keys.numbers.shape[2:4]
        places = torch.arange(tables.shape[1] * size, device=tables.device)
        is_beyond = places >= torch.tensor(lengths, device=tables.device)[:, None, None]
        return is_beyond.expand(-1, heads, -1).flatten().nonzero().flatten()


def _shares(batch: Batch) -> list[Share]:
    """The tokens of each adapter in a batch."""
    starts = cast("list[int]", batch.starts.tolist())
    tokens: dict[AdapterWeights, list[int]] = {}
    for adapter, begin, end in zip(batch.adapters, starts[:-1], starts[1:], strict=True):
        if adapter is not None:
            tokens.setdefault(adapter, []).extend(range(begin, end))
    return list(tokens.items())


def _num_wanted(batch: Batch) -> list[int]:
    """How many logits of each sequence are wanted; more than one of a sequence with guesses."""
    if batch.longest == 1:
        return [1] * len(batch.lengths)
    owners = torch.searchsorted(batch.starts, batch.wanted.to(batch.starts.dtype), right=True) - 1
    return cast("list[int]", torch.bincount(owners, minlength=len(batch.lengths)).tolist())
