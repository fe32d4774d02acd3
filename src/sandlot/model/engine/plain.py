# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
"""The CPU runner: the decoder in plain PyTorch over paged KV. It also runs in fp64, for tests.

Heads that share a KV head are stacked as query rows, so keys and values are not repeated. Decoding sequences of similar length
attend together, also those with guesses, prompts in groups of equal size. What decoding sequences share is read once for all of
them (`trunks.py`): reading keys and values takes most of the time of attention.
"""

from collections.abc import Callable
from contextlib import nullcontext
from typing import NamedTuple, cast

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812 - the name everyone knows
from numpy.typing import NDArray
from torch import Tensor, nn

from sandlot.model.engine.batch import Batch
from sandlot.model.engine.blocks import KvDtype
from sandlot.model.engine.cache import KVCache, Stored
from sandlot.model.engine.trunks import WORTH, cut_trunks
from sandlot.model.nn.decoder import Attend, Decoder
from sandlot.model.nn.mixed import AdapterWeights, Share, adapters_applied
from sandlot.model.nn.packed import PackedLinear, can_add_in_fp32
from sandlot.model.nn.pieces import attend_with_sums, merge_pieces

Part = Callable[[Tensor, Stored, Stored, Tensor], None]
"""(queries of all tokens, one layer's keys, its values, output to write to)."""


class _Asked(NamedTuple):
    """Queries for the keys of one table."""

    queries: list[int]
    """Their tokens in the batch."""
    ends: list[int]
    """How many of the keys each sees; the last one sees most."""
    table: NDArray[np.int32]


class _Piece(NamedTuple):
    """A part of the attention of some tokens; each is in it once."""

    own: Tensor
    """The tokens."""
    find: Callable[[Tensor, Stored, Stored], tuple[Tensor, Tensor]]
    """(queries of all tokens, one layer's keys, its values) -> their results, and the logarithms of their sums."""


_BUCKET = 1.5
"""Sequences attend together if the longest is at most this many times the shortest."""

_FEW = 2
"""For up to this many tokens the head is faster in fp32 than in two passes of bf16."""


class PlainRunner:
    """Runs batches on the device of the decoder's weights."""

    ahead = False

    def __init__(
        self, decoder: Decoder, *, blocks: int, block_size: int = 16, kv_dtype: KvDtype = "same", worth: int = WORTH
    ) -> None:
        """`worth`: prefixes are read together if that saves so many tokens of keys."""
        weight = decoder.embedding.weight
        self._decoder = decoder.eval()
        self._worth = worth
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
        prompts, alone, shared = self._parts(batch)
        where, offsets = batch.slots // self.cache.block_size, batch.slots % self.cache.block_size

        def attend(layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
            keys, values = self.cache.layers[layer]
            keys.write(where, offsets, k)
            values.write(where, offsets, v)
            exact = torch.promote_types(q.dtype, torch.float32)
            out = torch.empty(q.shape, dtype=exact if shared else q.dtype)  # merged pieces are rounded once
            for part in prompts:
                part(q, keys, values, out)
            if not shared:
                for piece in alone:
                    out[piece.own] = piece.find(q, keys, values)[0]
                return out
            total = torch.empty(q.shape[:2], dtype=exact)
            for piece in alone:
                found, total[piece.own] = piece.find(q, keys, values)
                out[piece.own] = found.to(exact)
            for piece in shared:
                so_far = out[piece.own], total[piece.own]
                out[piece.own], total[piece.own] = merge_pieces(*so_far, *piece.find(q, keys, values))
            return out.to(q.dtype)

        return attend

    def _parts(self, batch: Batch) -> tuple[list[Part], list[_Piece], list[_Piece]]:
        """What attends: prompts; decoding sequences to what each has alone; the same ones to what they share."""
        starts, lengths = batch.starts.tolist(), batch.lengths.tolist()
        tables, num_wanted = batch.tables.numpy(), _num_wanted(batch)
        prompts: dict[tuple[int, int], list[int]] = {}
        single: list[int] = []
        alone: list[_Asked] = []
        for index, length in enumerate(lengths):
            count = starts[index + 1] - starts[index]
            if count == 1:
                single.append(index)
            elif num_wanted[index] > 1:  # its newest token, and guesses after it
                ends = range(length - count + 1, length + 1)
                alone.append(_Asked(list(range(starts[index], starts[index] + count)), list(ends), tables[index]))
            else:
                prompts.setdefault((count, length), []).append(index)
        cut = cut_trunks(tables[single], np.array(lengths)[single], self.cache.block_size, self._worth)
        at = np.array([starts[index] for index in single])
        shared: dict[int, list[_Asked]] = {}
        for trunk in cut.trunks:
            rows, tokens = at[trunk.rows].tolist(), len(trunk.blocks) * self.cache.block_size
            shared.setdefault(trunk.start, []).append(_Asked(rows, [tokens] * len(rows), trunk.blocks))
        for index, begin in zip(single, cut.begins.tolist(), strict=True):
            alone.append(_Asked([starts[index]], [lengths[index] - begin * self.cache.block_size], tables[index, begin:]))
        return (
            [self._prompts([starts[index] for index in group], *size, batch.tables[group]) for size, group in prompts.items()],
            self._pieces(alone),
            [piece for each in shared.values() for piece in self._pieces(each)],
        )

    def _pieces(self, asked: list[_Asked]) -> list[_Piece]:
        """Queries with similar numbers of keys, and of queries for the same keys, are computed together."""
        found: list[_Piece] = []
        by_count: dict[int, list[_Asked]] = {}
        for each in asked:
            by_count.setdefault((len(each.queries) - 1).bit_length(), []).append(each)
        for rest in by_count.values():
            rest.sort(key=lambda each: each.ends[-1])
            while rest:
                shortest = rest[0].ends[-1]
                most = max(_BUCKET * shortest, shortest + self.cache.block_size)
                group = [each for each in rest if each.ends[-1] <= most]
                del rest[: len(group)]
                found.append(self._piece(group))
        return found

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
            out[where] = seen.unflatten(0, (len(at), -1)).permute(0, 3, 1, 2, 4).flatten(2, 3).to(out.dtype)

        return part

    def _piece(self, asked: list[_Asked]) -> _Piece:
        """Attention of a few queries for each of some tables of keys. Where there are fewer, the last one is repeated."""
        size, most = self.cache.block_size, max(len(each.queries) for each in asked)
        lengths = [each.ends[-1] for each in asked]
        longest = max(lengths)
        tables = np.zeros((len(asked), -(-longest // size)), np.int32)
        for row, each in zip(tables, asked, strict=True):
            own = each.table[: len(row)]
            row[: len(own)] = own
        gather = self._gather(torch.from_numpy(tables), lengths)
        where, ends = _padded([each.queries for each in asked], most), _padded([each.ends for each in asked], most)
        is_own = None
        if any(len(each.queries) < most for each in asked):
            is_own = torch.arange(most) < torch.tensor([len(each.queries) for each in asked])[:, None]
        shape = self._decoder.shape
        group = shape.heads // shape.kv_heads
        mask = None
        if int(ends.min()) < longest:
            hidden = torch.arange(longest) >= ends[:, :, None]
            mask = torch.zeros(hidden.shape, dtype=self._decoder.embedding.weight.dtype).masked_fill_(hidden, float("-inf"))
            mask = mask[:, None, None].expand(-1, -1, group if most > 1 else 1, -1, -1).flatten(2, 3)

        def find(q: Tensor, keys: Stored, values: Stored) -> tuple[Tensor, Tensor]:
            k, v = gather(keys, q.dtype), gather(values, q.dtype)
            queries = q[where].unflatten(2, (-1, group)).permute(0, 2, 3, 1, 4).flatten(2, 3)
            found, total = attend_with_sums(queries, k, v, mask)
            found = found.unflatten(2, (group, most)).permute(0, 3, 1, 2, 4).flatten(2, 3)
            total = total.unflatten(2, (group, most)).permute(0, 3, 1, 2).flatten(2, 3)
            return (found.flatten(0, 1), total.flatten(0, 1)) if is_own is None else (found[is_own], total[is_own])

        return _Piece(where.flatten() if is_own is None else where[is_own], find)

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


def _padded(lists: list[list[int]], length: int) -> Tensor:
    """Lists as rows of a tensor; shorter ones repeat their last number."""
    return torch.tensor([each if len(each) == length else [*each, *[each[-1]] * (length - len(each))] for each in lists])


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
