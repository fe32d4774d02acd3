"""Recorded passes: CUDA graphs, each with inputs of a fixed size, which are filled on the host and sent with one copy."""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from sandlot.model.engine.adapter_kernels import NONE
from sandlot.model.engine.adapter_table import DECODING
from sandlot.model.engine.batch import Batch

NO_TILES = np.empty((0, 1 + DECODING), np.int32)
_ALIGNED = 4
"""Every part begins at a multiple of 16 bytes: kernels are compiled anew for pointers that do not."""


class Packed:
    """The inputs of a pass over the tokens of some sequences, in one buffer. Padding writes to the scratch block.

    With one token per sequence, a sequence of padding has one too. With more, it has none, and tokens of padding belong to no
    sequence: what is computed for them means nothing.
    """

    def __init__(
        self, sequences: int, tokens: int, width: int, tiles: int, scratch: int, block_size: int, device: torch.device
    ) -> None:
        self._one_each = tokens == sequences
        self._scratch, self._slot = scratch, scratch * block_size
        sizes = (
            tokens,
            tokens,
            tokens,
            sequences,
            0 if self._one_each else sequences + 1,
            sequences * width,
            tiles * (1 + DECODING),
        )
        ends = list(accumulate(-(-size // _ALIGNED) * _ALIGNED for size in sizes))
        is_gpu = device.type == "cuda"
        self._host = torch.zeros(ends[-1], dtype=torch.int32, pin_memory=is_gpu)
        self._device = torch.zeros(ends[-1], dtype=torch.int32, device=device)
        self._copied = torch.cuda.Event() if is_gpu else None

        def parts(whole: Tensor) -> tuple[Tensor, ...]:
            ids, positions, slots, lengths, starts, tables, adapted = (
                whole[begin : begin + size] for begin, size in zip([0, *ends], sizes, strict=False)
            )
            return ids, positions, slots, lengths, starts, tables.view(sequences, width), adapted.view(tiles, 1 + DECODING)

        self.ids, self.positions, self.slots, self.lengths, starts, self.tables, self.tiles = parts(self._device)
        self.starts = None if self._one_each else starts
        """Where the tokens of each sequence begin; None if each has one."""
        self._parts = parts(self._host)

    def fill_idle(self) -> None:
        """Fill with padding only."""
        self._host.zero_()
        _, _, slots, lengths, _, tables, tiles = self._parts
        slots.fill_(self._slot)
        lengths.fill_(int(self._one_each))
        tables.fill_(self._scratch)
        tiles.fill_(NONE)
        self._send()

    def fill(self, batch: Batch, tiles: NDArray[np.int32]) -> None:
        """Fill with a batch that is not larger, and the tiles of its adapters."""
        (count, blocks), num_tokens = batch.tables.shape, len(batch.ids)
        if self._copied is not None:
            self._copied.synchronize()  # the copy of the last step may still read the host buffer
        ids, positions, slots, lengths, starts, tables, adapted = self._parts
        ids[:num_tokens], positions[:num_tokens], slots[:num_tokens] = batch.ids, batch.positions, batch.slots
        lengths[:count] = batch.lengths
        tables[:count, :blocks] = batch.tables
        adapted[:] = torch.as_tensor(tiles)
        if num_tokens < len(ids):
            ids[num_tokens:] = 0
            positions[num_tokens:] = 0
            slots[num_tokens:] = self._slot
        if not self._one_each:
            starts[: count + 1] = batch.starts
            starts[count + 1 :] = num_tokens
        if count < len(lengths):
            lengths[count:] = int(self._one_each)
            tables[count:, 0] = self._scratch
        self._send()

    def _send(self) -> None:
        self._device.copy_(self._host, non_blocking=True)
        if self._copied is not None:
            self._copied.record()


@dataclass(frozen=True, slots=True)
class Recorded:
    """A recorded pass."""

    inputs: Packed
    replay: Callable[[], Tensor]
    """Runs it on its inputs. The next replay overwrites what it returns."""


def record(inputs: Packed, run: Callable[[], Tensor], device: torch.device, pool: Any = None) -> Recorded:
    """Record a pass that reads these inputs.

    Passes with the same `pool` share memory for what they compute on the way. On the CPU nothing is recorded, and each replay
    runs the pass: that is for tests, which have the kernels interpreted.
    """
    inputs.fill_idle()
    if device.type != "cuda":
        return Recorded(inputs, run)
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(2):  # compile the kernels before the capture
            run()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, pool=pool, capture_error_mode="thread_local"):  # a trainer in another thread keeps running
        out = run()

    def replay() -> Tensor:
        graph.replay()
        return out

    return Recorded(inputs, replay)
