"""The adapters of a batch on a GPU, as a table of addresses that kernels read."""

import weakref
from collections.abc import Callable, Iterable

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from sandlot.model.engine.adapter_kernels import FIELDS, LEAST_ROWS, NONE, add_adapters
from sandlot.model.nn.mixed import AdapterWeights

DECODING, PROMPTS = 16, 64
"""Maximum tokens of a tile."""
LINEARS = ("qkv", "output", "gate_up", "down")
"""The linear layers of a block, in the order of the table."""

Adapt = Callable[[int, str, Tensor, Tensor], None]
"""(number of a block, name of its linear layer, input, output): add adapters to the output, in place."""


class AdapterTable:
    """Slots for the adapters of one batch at a time; what is written is used by passes that are launched later."""

    def __init__(self, layers: int, most: int, device: torch.device) -> None:
        """`most` adapters may be in one batch."""
        self._layers = layers
        self._entries = torch.zeros((most, layers * len(LINEARS), FIELDS), dtype=torch.int64, device=device)
        # Weak, so that an adapter leaves memory with its last request.
        self._slots: list[weakref.ref[AdapterWeights]] = []
        self.most = LEAST_ROWS
        """A bound of the rows of A and B: one of few, since a graph is recorded for each."""

    def put(self, adapters: Iterable[AdapterWeights | None]) -> NDArray[np.int32]:
        """Give the adapters of a batch slots; returns the slot of each sequence."""
        asked = list(adapters)
        wanted = dict.fromkeys(each for each in asked if each is not None)
        held = {found: slot for slot, each in enumerate(self._slots) if (found := each()) is not None}
        if not wanted.keys() <= held.keys():
            held = {each: slot for slot, each in enumerate(wanted)}
            self._slots = [weakref.ref(each) for each in wanted]
            self._entries[: len(wanted)] = torch.tensor([self._addresses(each) for each in wanted])
            self.most = _most_rows(wanted)
        return np.array([NONE if each is None else held[each] for each in asked], np.int32)

    def adapt(self, tiles: Tensor) -> Adapt:
        """What adds adapters to the tokens of tiles, as long as `most` is what it is now."""
        most = self.most

        def add(block: int, name: str, x: Tensor, out: Tensor) -> None:
            entries = self._entries[:, block * len(LINEARS) + LINEARS.index(name)]
            add_adapters(x, out, entries, most, tiles)

        return add

    def _addresses(self, adapter: AdapterWeights) -> list[tuple[int, ...]]:
        found = (adapter.linears.get(f"blocks.{block}.{name}") for block in range(self._layers) for name in LINEARS)
        return [(0,) * FIELDS if each is None else (*(x.data_ptr() for x in each), len(each[0]), 0) for each in found]


def _most_rows(adapters: Iterable[AdapterWeights]) -> int:
    rows = max(len(a) for each in adapters for a, _ in each.linears.values())
    return max(LEAST_ROWS, 1 << (rows - 1).bit_length())


def tiles_of(slots: NDArray[np.int32], size: int) -> NDArray[np.int32]:
    """Tiles of at most `size` tokens that cover those with an adapter: a row has a slot and tokens.

    There are a power of two, since a graph is recorded for each number; some are empty.
    """
    tokens = [np.flatnonzero(slots == slot) for slot in np.unique(slots[slots != NONE])]
    found = [own[first : first + size] for own in tokens for first in range(0, len(own), size)]
    tiles = np.full((1 << max(0, len(found) - 1).bit_length(), 1 + size), NONE, np.int32)
    for tile, own in zip(tiles, found, strict=False):
        tile[0], tile[1 : 1 + len(own)] = slots[own[0]], own
    return tiles


def placed(weights: AdapterWeights, device: torch.device, dtype: torch.dtype) -> AdapterWeights:
    """An adapter's weights on a device, in the type of the base model, as the kernels read them."""

    def moved(x: Tensor) -> Tensor:
        return x.to(device=device, dtype=dtype).contiguous()

    return AdapterWeights(weights.rank, {name: (moved(a), moved(b)) for name, (a, b) in weights.linears.items()})
