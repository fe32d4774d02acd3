"""The CUDA runner: own kernels between matrix products, paged attention, one CUDA graph per size of decoding batch.

Decoding replays a graph (`graphs.py`), also with guesses. Batches are padded to the next captured size; padding writes to a
scratch block. Prompts, chunks and mixed batches run without a graph.

Weights are used by functions, and no module is called: while the trainer compiles in another thread, torch may have replaced
`nn.Module.__call__` for the whole process.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, cast

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812 - the name everyone knows
from numpy.typing import NDArray
from torch import Tensor, nn

from sandlot.model.engine.adapter_table import DECODING, PROMPTS, Adapt, AdapterTable, placed, tiles_of
from sandlot.model.engine.batch import Batch
from sandlot.model.engine.blocks import KvDtype
from sandlot.model.engine.cache import KVCache, Stored
from sandlot.model.engine.graphs import NO_TILES, Packed, Recorded, record
from sandlot.model.engine.kernels import add_norm, attend_decoding, decoding_rows, gate, rotate
from sandlot.model.engine.prompts import PromptAttention, as_ints, find_long
from sandlot.model.nn.adapter import adapted_linears
from sandlot.model.nn.decoder import Block, Decoder
from sandlot.model.nn.mixed import AdapterWeights
from sandlot.model.nn.pieces import has_cudnn

_Attend = Callable[[Tensor, Tensor | None, Tensor, Stored, Stored], Tensor]
"""(queries, keys if wanted and values of this pass, keys and values of one layer's cache) -> attended."""
_MOST_QUERIES = 16
"""Tokens of one sequence in a recorded pass, at most."""


class CudaRunner:
    """`Runner` on one CUDA device."""

    ahead = True

    def __init__(
        self,
        decoder: Decoder,
        *,
        blocks: int,
        block_size: int = 64,
        max_batch: int = 256,
        max_context: int | None = None,
        kv_dtype: KvDtype = "same",
    ) -> None:
        if any(adapted_linears(decoder)):
            raise ValueError("the decoder has adapters in its layers: merge them, or give the engine the adapters by themselves")
        weight = decoder.embedding.weight
        self.decoder = decoder.eval().requires_grad_(requires_grad=False)
        self.device = weight.device
        # One block more than the engine uses: padding rows write there.
        self.cache = KVCache(decoder.shape, blocks + 1, block_size, weight.device, weight.dtype, stored=kv_dtype)
        self.scratch = blocks
        self.max_batch = max_batch
        self.width = -(-(max_context or decoder.shape.context) // block_size)
        self._graphs: dict[tuple[int, ...], Recorded] = {}
        """By batch size, and if there are adapters, by the number of tiles and the most rows of an adapter."""
        self._guessed_graphs: dict[tuple[int, ...], Recorded] = {}
        """Of passes with guesses: also by the number of tokens, and by the most tokens of a sequence."""
        self._pool: Any = torch.cuda.graph_pool_handle() if self.device.type == "cuda" else None
        self._adapters = AdapterTable(decoder.shape.layers, max_batch, weight.device)
        self._processors = _processors(weight.device)

    @torch.inference_mode()
    def forward(self, batch: Batch, ids: Tensor | None = None) -> Tensor:
        """Logits of the wanted tokens; the KV of all tokens is written."""
        if len(batch.lengths) <= self.max_batch:
            if batch.longest == 1:
                return self._decode(batch, ids)
            if batch.longest <= _MOST_QUERIES and len(batch.wanted) == len(batch.ids):
                return self._check(batch)
        assert ids is None, "tokens that are only on the device are decoded"
        return self._run(batch)

    def place(self, weights: AdapterWeights) -> AdapterWeights:
        """An adapter's weights on the device."""
        try:
            return placed(weights, self.device, self.decoder.embedding.weight.dtype)
        except torch.OutOfMemoryError as error:
            raise MemoryError(str(error).partition("\n")[0]) from error

    # -- decoding ------------------------------------------------------------------------------------------------------

    def _decode(self, batch: Batch, ids: Tensor | None) -> Tensor:
        count = len(batch.lengths)
        tiles = self._tiles(batch.adapters)
        key = _rounded(count), *self._adapted(tiles)
        if key not in self._graphs:
            self._graphs[key] = self._record(key[0], key[0], 1, len(tiles))
        recorded = self._graphs[key]
        recorded.inputs.fill(batch, tiles)
        if ids is not None:
            recorded.inputs.ids[:count] = ids
        logits = recorded.replay()
        return logits[:count] if len(batch.wanted) == count else logits[batch.wanted.to(self.device)]

    def _check(self, batch: Batch) -> Tensor:
        """Logits after the newest token of each sequence, and after guesses that follow it."""
        num_tokens, sequences = len(batch.ids), _rounded(len(batch.lengths))
        tiles = self._tiles(batch.adapters, batch.starts)
        group = self.decoder.shape.heads // self.decoder.shape.kv_heads
        size = sequences, _rounded_tokens(max(num_tokens, sequences + 1)), decoding_rows(group, batch.longest) // group
        key = *size, *self._adapted(tiles)
        if key not in self._guessed_graphs:
            self._guessed_graphs[key] = self._record(*size, len(tiles))
        recorded = self._guessed_graphs[key]
        recorded.inputs.fill(batch, tiles)
        # Outside of the graph, so that logits of padding take neither memory nor time.
        return self._logits(recorded.replay()[:num_tokens])

    def _tiles(self, adapters: Sequence[AdapterWeights | None], starts: Tensor | None = None) -> NDArray[np.int32]:
        """The tiles of a pass with one token per sequence, or with those from one of `starts` to the next."""
        if not adapters:
            return NO_TILES
        slots = self._adapters.put(adapters)
        return tiles_of(slots if starts is None else np.repeat(slots, np.diff(as_ints(starts))), DECODING)

    def _adapted(self, tiles: NDArray[np.int32]) -> tuple[int, int]:
        """What a graph with these tiles depends on."""
        return len(tiles), self._adapters.most if len(tiles) else 0

    def _record(self, sequences: int, tokens: int, queries: int, tiles: int) -> Recorded:
        """Record a pass of so many tokens, at most `queries` of each sequence: to logits, or to what they are computed from."""
        inputs = Packed(sequences, tokens, self.width, tiles, self.scratch, self.cache.block_size, self.device)
        splits = self._splits(sequences)
        adapt = self._adapters.adapt(inputs.tiles) if tiles else None

        def attend(q: Tensor, _k: Tensor | None, _v: Tensor, keys: Stored, values: Stored) -> Tensor:
            return attend_decoding(q, keys, values, inputs.tables, inputs.lengths, splits, inputs.starts, queries)

        def run() -> Tensor:
            hidden = self._hidden(inputs.ids, inputs.positions, inputs.slots, attend, adapt=adapt)
            return self._logits(hidden) if inputs.starts is None else hidden

        return record(inputs, run, self.device, None if inputs.starts is None else self._pool)

    def _splits(self, size: int) -> int:
        """Programs per sequence and KV head: enough to keep every multiprocessor busy."""
        programs = size * self.decoder.shape.kv_heads
        return max(1, min(64, 4 * self._processors // programs))

    # -- prompts and mixed batches ------------------------------------------------------------------------------------------

    def _run(self, batch: Batch) -> Tensor:
        shape = self.decoder.shape
        counts = as_ints(batch.starts[1:] - batch.starts[:-1])
        long = find_long(counts, as_ints(batch.lengths)) if has_cudnn(self.decoder.embedding.weight.dtype, shape.head) else []
        attention = PromptAttention(batch, shape.heads // shape.kv_heads, self.device, long)
        ids, positions, slots, wanted = (
            x.to(self.device, non_blocking=True) for x in (batch.ids, batch.positions, batch.slots, batch.wanted)
        )
        adapt = self._adapt(batch) if batch.adapters else None
        hidden = self._hidden(ids, positions, slots, attention.attend, wants_keys=attention.wants_keys, adapt=adapt)
        return self._logits(hidden[wanted])

    def _adapt(self, batch: Batch) -> Adapt:
        counts = as_ints(batch.starts[1:] - batch.starts[:-1])
        tiles = tiles_of(np.repeat(self._adapters.put(batch.adapters), counts), PROMPTS)
        return self._adapters.adapt(torch.as_tensor(tiles).to(self.device, non_blocking=True))

    def _hidden(
        self,
        ids: Tensor,
        positions: Tensor,
        slots: Tensor,
        attend: _Attend,
        *,
        wants_keys: bool = False,
        adapt: Adapt | None = None,
    ) -> Tensor:
        """The decoder's forward pass. What is between two matrix products is one kernel; adapters add two to each product."""
        decoder = self.decoder
        x = F.embedding(ids, decoder.embedding.weight)
        cos, sin = decoder.angles(positions, x.dtype)
        shape, delta = decoder.shape, None
        k = torch.empty((len(x), shape.kv_heads, shape.head), device=x.device, dtype=x.dtype) if wants_keys else None
        blocks = cast("Iterable[Block]", decoder.blocks)
        for number, (block, (keys, values)) in enumerate(zip(blocks, self.cache.layers, strict=True)):
            normed = add_norm(x, delta, block.before_attention.weight, block.before_attention.eps)
            qkv: Any = _applied(block.qkv, normed, adapt, number, "qkv")
            q = rotate(qkv, cos, sin, block.head_norms, keys, values, slots, k)
            v = qkv[:, -shape.kv_heads * shape.head :].unflatten(1, (shape.kv_heads, shape.head))
            attended = attend(q, k, v, keys, values)
            delta = _applied(block.output, attended.flatten(1), adapt, number, "output")
            normed = add_norm(x, delta, block.before_mlp.weight, block.before_mlp.eps)
            gated = gate(_applied(block.gate_up, normed, adapt, number, "gate_up"))
            delta = _applied(block.down, gated, adapt, number, "down")
        return add_norm(x, delta, decoder.norm.weight, decoder.norm.eps)

    def _logits(self, hidden: Tensor) -> Tensor:
        weight = self.decoder.head.weight
        if weight.dtype == torch.float32:
            return F.linear(hidden, weight)
        # Accumulated and written in fp32, so that log-probabilities are not rounded to the weights' type.
        return torch.mm(hidden, weight.t(), out_dtype=torch.float32)


def _applied(linear: nn.Linear, x: Tensor, adapt: Adapt | None, block: int, name: str) -> Tensor:
    """A linear layer of a block, with adapters if there are any."""
    out = F.linear(x, linear.weight, linear.bias)
    if adapt is not None:
        adapt(block, name, x, out)
    return out


def _rounded(count: int) -> int:
    """The captured batch size: few sizes, close to the count."""
    size = 1
    while size < count:
        size += min(32, size)
    return size


def _rounded_tokens(count: int) -> int:
    """The captured number of tokens of a pass with guesses: a power of two, or one and a half times as much."""
    size = 1 << (count - 1).bit_length()
    return size * 3 // 4 if size >= 4 and count <= size * 3 // 4 else size


def _processors(device: torch.device) -> int:
    if device.type != "cuda":  # the kernels are interpreted
        return 1
    # The stubs lack this type.
    properties = cast("Any", torch.cuda.get_device_properties(device))  # pyright: ignore[reportUnknownMemberType]
    return int(properties.multi_processor_count)
