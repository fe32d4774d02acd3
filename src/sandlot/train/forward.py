"""The trainer's forward: exact log-probabilities of every trained token of some rows, by way of their forest.

Logits exist only for the tokens that lead to a trained one, and only a chunk of them at a time: vocabulary times tokens is never
held. Layers may be recomputed in the backward pass instead of kept.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint  # pyright: ignore[reportUnknownVariableType]

from sandlot.nn.decoder import Attend, Block, Decoder
from sandlot.train.attention import forest_attention, padded
from sandlot.train.forest import Forest, forest_of
from sandlot.train.rows import Row

CHUNK = 2048
"""Rows of logits at a time."""


@dataclass(frozen=True, slots=True)
class Seen:
    """What the forward says of the trained tokens of rows, rows joined: `[tokens]` each."""

    logprobs: Tensor
    entropy: Tensor | None
    values: Tensor | None
    computed: int
    """Tokens of the forest."""


def placed(array: NDArray[Any], device: torch.device) -> Tensor:
    """An array as a tensor on a device."""
    return cast("Any", torch).from_numpy(array).to(device)


def exact(x: Tensor) -> Tensor:
    """In fp32 at least."""
    return x if x.dtype == torch.float64 else x.float()


def seen(
    decoder: Decoder,
    rows: Sequence[Row],
    *,
    temperature: float = 1.0,
    entropy: bool = False,
    critic: nn.Linear | None = None,
    recompute: bool = False,
) -> Seen:
    """Log-probabilities, at the temperature they were sampled with, and what else is asked for."""
    forest = forest_of([row.ids for row in rows])
    device = decoder.embedding.weight.device
    wanted = [path[row.trained] for path, row in zip(forest.paths, rows, strict=True)]
    if any(forest.parent[places].min(initial=0) < 0 for places in wanted):
        raise ValueError("the first token of a row is marked as sampled; nothing stood before it to sample it from")
    joined = np.concatenate(wanted) if wanted else np.empty(0, np.int64)
    # Several rows may run through one token: it is looked at once and gathered by all of them.
    distinct, back = np.unique(joined, return_inverse=True)
    hidden = _hidden(decoder, forest, device, recompute=recompute)
    before = hidden[placed(forest.parent[distinct], device)]
    targets = placed(forest.ids[distinct], device)
    gather = placed(back.astype(np.int64), device)
    logprobs, spread = _scores(decoder, before, targets, temperature, entropy=entropy)
    return Seen(
        logprobs=logprobs[gather],
        entropy=spread[gather] if entropy else None,
        values=exact(critic(before))[:, 0][gather] if critic is not None else None,
        computed=len(forest),
    )


def _hidden(decoder: Decoder, forest: Forest, device: torch.device, *, recompute: bool) -> Tensor:
    """Hidden states of the forest's tokens. On a GPU it is filled up, with tokens that see only themselves, to a common size."""
    spare = padded(len(forest)) - len(forest) if device.type == "cuda" else 0
    ids = placed(np.pad(forest.ids, (0, spare)), device)
    positions = placed(np.pad(forest.depth, (0, spare)), device)
    filled = np.concatenate((forest.last, np.arange(len(forest), len(forest) + spare) + 1))
    attend = forest_attention(placed(filled, device))
    if not recompute:
        return decoder(ids, positions, attend)
    x = decoder.embedding(ids)
    cos, sin = decoder.angles(positions, x.dtype)
    for layer, block in enumerate(cast("Iterable[Block]", decoder.blocks)):
        x = cast("Tensor", checkpoint(_layer, block, layer, attend, x, cos, sin, use_reentrant=False))
    return decoder.norm(x)


def _layer(block: Block, layer: int, attend: Attend, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    return block.outputs(x, attend(layer, *block.inputs(x, cos, sin)))


def _scores(decoder: Decoder, hidden: Tensor, targets: Tensor, temperature: float, *, entropy: bool) -> tuple[Tensor, Tensor]:
    """Log-probabilities of the targets, and the entropies of what they were drawn from, a chunk at a time."""

    def chunk(hidden: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        logits = decoder.logits(hidden)
        logits = exact(logits) / temperature
        whole = torch.logsumexp(logits, -1)
        chosen = logits.gather(1, targets[:, None])[:, 0] - whole
        spread = whole - (torch.softmax(logits, -1) * logits).sum(-1) if entropy else chosen.detach()
        return chosen, spread

    parts: list[Any] = [
        checkpoint(chunk, hidden[at : at + CHUNK], targets[at : at + CHUNK], use_reentrant=False)
        for at in range(0, len(targets), CHUNK)
    ]
    if not parts:
        empty = hidden.new_zeros(0, dtype=torch.float32)
        return empty, empty
    return torch.cat([chosen for chosen, _ in parts]), torch.cat([spread for _, spread in parts])
