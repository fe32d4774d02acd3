"""A decoder and its critic as one module. All forward passes of the trainer go through it."""

from collections.abc import Sequence
from typing import Any

from torch import Tensor, nn

from sandlot.model.nn.decoder import Decoder
from sandlot.train.forest.forward import RowOutputs, forward_rows
from sandlot.train.rows import Row


class DecoderWithCritic(nn.Module):
    """Decoder plus value head in one module, so that FSDP's hooks gather their weights."""

    def __init__(self, decoder: Decoder, critic: nn.Linear | None = None) -> None:
        super().__init__()
        self.decoder, self.critic = decoder, critic

    def compute(self, rows: Sequence[Row], *, critic: bool = False, **asked: Any) -> RowOutputs:
        """As `forward_rows`."""
        return RowOutputs(*self(rows, critic=critic, **asked))

    def forward(self, rows: Sequence[Row], *, critic: bool, **asked: Any) -> tuple[Tensor, Tensor | None, Tensor | None, int]:
        """The fields of `RowOutputs` as a tuple: FSDP finds the tensors of a tuple."""
        found = forward_rows(self.decoder, rows, critic=self.critic if critic else None, **asked)
        return found.logprobs, found.entropy, found.values, found.computed
