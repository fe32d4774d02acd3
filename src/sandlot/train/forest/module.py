"""A decoder and its critic as one module: everything that is looked at goes through it.

So that weights which lie on several processes are gathered in time: whoever shards them hooks into calls of modules.
"""

from collections.abc import Sequence
from typing import Any

from torch import Tensor, nn

from sandlot.model.nn.decoder import Decoder
from sandlot.train.forest.forward import RowOutputs, forward_rows
from sandlot.train.rows import Row


class DecoderWithCritic(nn.Module):
    """What sees rows."""

    def __init__(self, decoder: Decoder, critic: nn.Linear | None = None) -> None:
        super().__init__()
        self.decoder, self.critic = decoder, critic

    def compute(self, rows: Sequence[Row], *, critic: bool = False, **asked: Any) -> RowOutputs:
        """As `forward.seen`."""
        return RowOutputs(*self(rows, critic=critic, **asked))

    def forward(self, rows: Sequence[Row], *, critic: bool, **asked: Any) -> tuple[Tensor, Tensor | None, Tensor | None, int]:
        """The fields of `RowOutputs`: whoever watches for gradients must find the tensors."""
        found = forward_rows(self.decoder, rows, critic=self.critic if critic else None, **asked)
        return found.logprobs, found.entropy, found.values, found.computed
