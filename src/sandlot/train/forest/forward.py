"""The trainer's forward pass: exact log-probabilities of every trained token of some rows, computed on their forest.

Logits are computed only for tokens before a trained one, and only one chunk at a time: a matrix of all tokens times the
vocabulary never exists. Layers may be recomputed in the backward pass instead of stored.
"""

import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint  # pyright: ignore[reportUnknownVariableType]

from sandlot.model.nn.decoder import Attend, Block, Decoder
from sandlot.train.forest.attention import forest_attention, padded_size
from sandlot.train.forest.depth_first import ForwardSettings, forward_depth_first
from sandlot.train.forest.forest import Forest, forest_of
from sandlot.train.forest.scores import at_least_fp32, score_tokens, to_tensor
from sandlot.train.rows import Row


@dataclass(frozen=True, slots=True)
class RowOutputs:
    """Results for the trained tokens of all rows, joined: `[tokens]` each."""

    logprobs: Tensor
    entropy: Tensor | None
    values: Tensor | None
    computed: int
    """Tokens of the forest."""


def forward_rows(
    decoder: Decoder,
    rows: Sequence[Row],
    *,
    temperature: float = 1.0,
    entropy: bool = False,
    critic: nn.Linear | None = None,
    recompute: bool = False,
    tokens: int = sys.maxsize,
) -> RowOutputs:
    """Log-probabilities at the sampling temperature, and if wanted entropies and values.

    A forest of more than `tokens` is computed depth first, in pieces of that many; then only `backward` gives gradients.
    """
    forest = forest_of([row.ids for row in rows])
    device = decoder.embedding.weight.device
    wanted = [path[row.trained] for path, row in zip(forest.paths, rows, strict=True)]
    if any(forest.parent[places].min(initial=0) < 0 for places in wanted):
        raise ValueError("the first token of a row is marked as sampled, but no token is before it")
    joined = np.concatenate(wanted) if wanted else np.empty(0, np.int64)
    # Several rows may contain one token: it is scored once and gathered into all of them.
    distinct, back = np.unique(joined, return_inverse=True)
    gather = to_tensor(back.astype(np.int64), device)
    if len(forest) > tokens:
        settings = ForwardSettings(decoder, temperature, entropy=entropy, critic=critic, recompute=recompute)
        logprobs, spread, values = forward_depth_first(settings, forest, distinct, tokens)
    else:
        hidden = _hidden(decoder, forest, device, recompute=recompute)
        before = hidden[to_tensor(forest.parent[distinct], device)]
        logprobs, spread = score_tokens(decoder, before, to_tensor(forest.ids[distinct], device), temperature, entropy=entropy)
        values = at_least_fp32(critic(before))[:, 0] if critic is not None else None
    return RowOutputs(
        logprobs=logprobs[gather],
        entropy=spread[gather] if entropy else None,
        values=values[gather] if values is not None and critic is not None else None,
        computed=len(forest),
    )


def _hidden(decoder: Decoder, forest: Forest, device: torch.device, *, recompute: bool) -> Tensor:
    """Hidden states of the forest's tokens. On a GPU it is padded to a common size."""
    spare = padded_size(len(forest)) - len(forest) if device.type == "cuda" else 0
    ids = to_tensor(np.pad(forest.ids, (0, spare)), device)
    positions = to_tensor(np.pad(forest.depth, (0, spare)), device)
    filled = np.concatenate((forest.last, np.arange(len(forest), len(forest) + spare) + 1))
    attend = forest_attention(to_tensor(filled, device))
    if not recompute:
        return decoder(ids, positions, attend)
    x = decoder.embedding(ids)
    cos, sin = decoder.angles(positions, x.dtype)
    for layer, block in enumerate(cast("Iterable[Block]", decoder.blocks)):
        x = cast("Tensor", checkpoint(_layer, block, layer, attend, x, cos, sin, use_reentrant=False))
    return decoder.norm(x)


def _layer(block: Block, layer: int, attend: Attend, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    return block.outputs(x, attend(layer, *block.inputs(x, cos, sin)))
