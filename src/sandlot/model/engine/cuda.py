"""The CUDA runner: own kernels between matrix products, paged attention, one CUDA graph per size of decoding batch.

Decoding replays a graph. Its inputs are one packed integer buffer, filled on the host and copied once. Batches are padded to the
next captured size; padding rows write to a scratch block. Prompts, chunks and mixed batches run without a graph.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from sandlot.model.engine.adapter_kernels import NONE
from sandlot.model.engine.adapter_table import DECODING, PROMPTS, Adapt, AdapterTable, placed, tiles_of
from sandlot.model.engine.batch import Batch
from sandlot.model.engine.blocks import KvDtype
from sandlot.model.engine.cache import KVCache, Stored
from sandlot.model.engine.kernels import add_norm, attend_decoding, gate, rotate
from sandlot.model.engine.prompts import PromptAttention, as_ints, find_long
from sandlot.model.nn.decoder import Block, Decoder
from sandlot.model.nn.mixed import AdapterWeights
from sandlot.model.nn.pieces import has_cudnn

_Attend = Callable[[Tensor, Tensor | None, Tensor, Stored, Stored], Tensor]
"""(queries, keys if wanted and values of this pass, keys and values of one layer's cache) -> attended."""
_NO_TILES = np.empty((0, 1 + DECODING), np.int32)


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
        weight = decoder.embedding.weight
        self.decoder = decoder.eval().requires_grad_(requires_grad=False)
        self.device = weight.device
        # One block more than the engine uses: padding rows write there.
        self.cache = KVCache(decoder.shape, blocks + 1, block_size, weight.device, weight.dtype, stored=kv_dtype)
        self.scratch = blocks
        self.max_batch = max_batch
        self.width = -(-(max_context or decoder.shape.context) // block_size)
        self._graphs: dict[tuple[int, int, int], _Recorded] = {}
        """By batch size, and if there are adapters, by the number of tiles and the most rows of an adapter."""
        self._adapters = AdapterTable(decoder.shape.layers, max_batch, weight.device)
        self._processors = _processors(weight.device)

    @torch.inference_mode()
    def forward(self, batch: Batch, ids: Tensor | None = None) -> Tensor:
        """Logits of the wanted tokens; the KV of all tokens is written."""
        if batch.longest == 1 and len(batch.lengths) <= self.max_batch:
            return self._decode(batch, ids)
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
        tiles = tiles_of(self._adapters.put(batch.adapters), DECODING) if batch.adapters else _NO_TILES
        key = self._rounded(count), len(tiles), self._adapters.most if batch.adapters else 0
        if key not in self._graphs:
            self._graphs[key] = self._record(*key[:2])
        recorded = self._graphs[key]
        recorded.inputs.fill(batch, self.scratch, self.cache.block_size, tiles)
        if ids is not None:
            recorded.inputs.ids[:count] = ids
        recorded.graph.replay()
        return recorded.logits[:count] if len(batch.wanted) == count else recorded.logits[batch.wanted.to(self.device)]

    def _rounded(self, count: int) -> int:
        """The captured batch size: few sizes, close to the count."""
        size = 1
        while size < count:
            size += min(32, size)
        return size

    def _record(self, size: int, tiles: int) -> "_Recorded":
        inputs = _Packed(size, self.width, tiles, self.device)
        inputs.fill_idle(self.scratch, self.cache.block_size)
        splits = self._splits(size)
        adapt = self._adapters.adapt(inputs.tiles) if tiles else None

        def attend(q: Tensor, _k: Tensor | None, _v: Tensor, keys: Stored, values: Stored) -> Tensor:
            return attend_decoding(q, keys, values, inputs.tables, inputs.lengths, splits)

        def run() -> Tensor:
            return self._logits(self._hidden(inputs.ids, inputs.positions, inputs.slots, attend, adapt=adapt))

        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(2):  # compile the kernels before the capture
                run()
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, capture_error_mode="thread_local"):  # a trainer in another thread keeps running
            logits = run()
        return _Recorded(graph=graph, inputs=inputs, logits=logits)

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
        x = decoder.embedding(ids)
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
            return self.decoder.logits(hidden)
        # Accumulated and written in fp32, so that log-probabilities are not rounded to the weights' type.
        return torch.mm(hidden, weight.t(), out_dtype=torch.float32)


def _applied(linear: nn.Linear, x: Tensor, adapt: Adapt | None, block: int, name: str) -> Tensor:
    """A linear layer of a block, with adapters if there are any."""
    out = linear(x)
    if adapt is not None:
        adapt(block, name, x, out)
    return out


def _processors(device: torch.device) -> int:
    # The stubs lack this type.
    properties = cast("Any", torch.cuda.get_device_properties(device))  # pyright: ignore[reportUnknownMemberType]
    return int(properties.multi_processor_count)


class _Packed:
    """A decoding batch's inputs in one buffer, sent with one copy."""

    def __init__(self, size: int, width: int, tiles: int, device: torch.device) -> None:
        self.size, self.width = size, width
        tables, adapted = 4 * size, (4 + width) * size
        total = adapted + tiles * (1 + DECODING)
        self._host = torch.zeros(total, dtype=torch.int32, pin_memory=True)
        self._device = torch.zeros(total, dtype=torch.int32, device=device)
        self.ids, self.positions, self.slots, self.lengths = self._device[:tables].view(4, size)
        self.tables = self._device[tables:adapted].view(size, width)
        self.tiles = self._device[adapted:].view(tiles, 1 + DECODING)
        self._columns = self._host[:tables].view(4, size)
        self._tables = self._host[tables:adapted].view(size, width)
        self._tiles = self._host[adapted:].view(tiles, 1 + DECODING)
        self._copied = torch.cuda.Event()

    def fill_idle(self, scratch: int, block_size: int) -> None:
        """Fill with padding rows only."""
        self._columns.zero_()
        self._columns[2] = scratch * block_size
        self._columns[3] = 1
        self._tables.fill_(scratch)
        self._tiles.fill_(NONE)
        self._send()

    def fill(self, batch: Batch, scratch: int, block_size: int, tiles: NDArray[np.int32]) -> None:
        """Fill with a batch of at most `size` sequences, and the tiles of its adapters."""
        count, blocks = batch.tables.shape
        self._copied.synchronize()  # the copy of the last step may still read the host buffer
        self._columns[0, :count] = batch.ids
        self._columns[1, :count] = batch.positions
        self._columns[2, :count] = batch.slots
        self._columns[3, :count] = batch.lengths
        self._tables[:count, :blocks] = batch.tables
        self._tiles[:] = torch.as_tensor(tiles)
        if count < self.size:
            self._columns[0, count:] = 0
            self._columns[1, count:] = 0
            self._columns[2, count:] = scratch * block_size
            self._columns[3, count:] = 1
            self._tables[count:, 0] = scratch
        self._send()

    def _send(self) -> None:
        self._device.copy_(self._host, non_blocking=True)
        self._copied.record()


@dataclass(frozen=True, slots=True)
class _Recorded:
    """A captured graph with its inputs and output."""

    graph: torch.cuda.CUDAGraph
    inputs: _Packed
    logits: Tensor
