"""Log-probabilities and entropies from hidden states, one chunk of logits at a time."""

from typing import Any, cast

import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.utils.checkpoint import checkpoint  # pyright: ignore[reportUnknownVariableType]

from sandlot.model.nn.decoder import Decoder

_CHUNK = 2048
"""Rows of logits per chunk."""


def to_tensor(array: NDArray[Any], device: torch.device) -> Tensor:
    """An array as a tensor on a device."""
    return cast("Any", torch).from_numpy(array).to(device)


def at_least_fp32(x: Tensor) -> Tensor:
    """The tensor in fp32, or in fp64 if it is."""
    return x if x.dtype == torch.float64 else x.float()


def score_tokens(
    decoder: Decoder, hidden: Tensor, targets: Tensor, temperature: float, *, entropy: bool
) -> tuple[Tensor, Tensor]:
    """Log-probabilities of the targets, and entropies of their distributions, one chunk at a time."""

    def chunk(hidden: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        logits = decoder.logits(hidden)
        logits = at_least_fp32(logits) / temperature
        whole = torch.logsumexp(logits, -1)
        chosen = logits.gather(1, targets[:, None])[:, 0] - whole
        spread = whole - (torch.softmax(logits, -1) * logits).sum(-1) if entropy else chosen.detach()
        return chosen, spread

    parts: list[Any] = [
        checkpoint(chunk, hidden[at : at + _CHUNK], targets[at : at + _CHUNK], use_reentrant=False)
        for at in range(0, len(targets), _CHUNK)
    ]
    if not parts:
        empty = at_least_fp32(hidden).new_zeros(0)
        return empty, empty
    return torch.cat([chosen for chosen, _ in parts]), torch.cat([spread for _, spread in parts])
