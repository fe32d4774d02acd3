"""Log-probabilities and entropies from hidden states, one chunk of logits at a time."""

from typing import Any, cast

import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint  # pyright: ignore[reportUnknownVariableType]

from sandlot.train.forest.layers import PLAIN, LayerFunctions, at_least_fp32

_CHUNK = 2048
"""Rows of logits per chunk."""


def to_tensor(array: NDArray[Any], device: torch.device) -> Tensor:
    """An array as a tensor on a device. To a GPU it goes by pinned memory: the host does not wait for earlier work."""
    tensor = cast("Any", torch).from_numpy(array)
    return tensor.pin_memory().to(device, non_blocking=True) if device.type == "cuda" else tensor.to(device)


def score_tokens(
    head: nn.Module,
    hidden: Tensor,
    targets: Tensor,
    temperature: float,
    *,
    entropy: bool,
    functions: LayerFunctions = PLAIN,
) -> tuple[Tensor, Tensor]:
    """Log-probabilities of the targets, and entropies of their distributions, one chunk at a time."""
    parts = [
        _scores(functions, head, hidden[at : at + _CHUNK], targets[at : at + _CHUNK], temperature, entropy)
        for at in range(0, len(targets), _CHUNK)
    ]
    if not parts:
        empty = at_least_fp32(hidden).new_zeros(0)
        return empty, empty
    return torch.cat([chosen for chosen, _ in parts]), torch.cat([spread for _, spread in parts])


def _scores(functions: LayerFunctions, *given: Any) -> tuple[Tensor, Tensor]:
    """The scores of a chunk. Its logits are computed again in the backward pass."""
    if functions.lean is not None and torch.is_grad_enabled():
        return functions.lean.scores(*given)
    return cast("Any", checkpoint)(functions.scores, *given, use_reentrant=False, preserve_rng_state=False)  # nothing is random
