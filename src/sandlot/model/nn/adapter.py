"""A linear layer with a low-rank addition: `W x + scale * B A x`, where only A and B are trained.

Joined projections (`qkv`, `gate_up`) have one adapter for each Hugging Face projection in them. A and B are always fp32: a step
of 1e-5 is lost in bf16. A is drawn on the CPU, so that a seed gives the same values on every device.
"""

import math
from collections.abc import Generator, Iterable, Iterator, Sequence
from typing import cast

import torch
import torch.nn.functional as F  # noqa: N812 - the name everyone knows
from torch import Tensor, nn


class AdaptedLinear(nn.Module):
    """Replaces a linear layer and shares its parameters, under the same names."""

    def __init__(self, linear: nn.Linear, rows: Sequence[int], rank: int, scale: float, draw: torch.Generator) -> None:
        super().__init__()
        self.original = (linear,)  # in a tuple, so that it is not a submodule
        self.weight, self.bias = linear.weight, linear.bias
        self.rows, self.rank, self.scale = tuple(rows), rank, scale
        device = linear.weight.device
        drawn = torch.empty(len(rows) * rank, linear.in_features, dtype=torch.float32)
        nn.init.kaiming_uniform_(drawn, a=math.sqrt(5), generator=draw)
        self.lora_a = nn.Parameter(drawn.to(device))
        self.lora_b = nn.Parameter(torch.zeros(linear.out_features, rank, dtype=torch.float32, device=device))

    def forward(self, x: Tensor) -> Tensor:
        """The linear layer plus its adapters."""
        out = F.linear(x, self.weight, self.bias)
        exact = x.to(self.lora_a.dtype)
        added = torch.cat([F.linear(F.linear(exact, a), b) for a, b in self.parts()], dim=-1)
        return out + (added * self.scale).to(out.dtype)

    def parts(self) -> Iterator[tuple[Tensor, Tensor]]:
        """A and B of each projection."""
        start = 0
        for index, rows in enumerate(self.rows):
            yield self.lora_a[index * self.rank : (index + 1) * self.rank], self.lora_b[start : start + rows]
            start += rows

    def merged_weight(self) -> Tensor:
        """The weights plus the adapters, in the type of the base."""
        with torch.no_grad():
            added = torch.cat([b @ a for a, b in self.parts()]) * self.scale
            return (self.weight.to(added.dtype) + added).to(self.weight.dtype)


def adapted_linears(model: nn.Module) -> Generator[tuple[str, AdaptedLinear]]:
    """Every adapted layer of a model, with its name."""
    for name, module in cast("Iterable[tuple[str, nn.Module]]", model.named_modules()):
        if isinstance(module, AdaptedLinear):
            yield name, module
