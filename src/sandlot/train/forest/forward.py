"""The trainer's forward pass: exact log-probabilities of every trained token of some rows, computed on their forest.

Logits are computed only for tokens before a trained one, and only one chunk at a time: a matrix of all tokens times the
vocabulary never exists. Layers may be recomputed in the backward pass instead of stored.
"""

import itertools
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint  # pyright: ignore[reportUnknownVariableType]

from sandlot.model.nn.decoder import Attend, Block, Decoder
from sandlot.model.nn.pieces import has_cudnn
from sandlot.train.forest.attention import BLOCK, forest_attention, padded_size
from sandlot.train.forest.depth_first import ForwardSettings, forward_depth_first
from sandlot.train.forest.flash_attention import flash_attention, has_flash
from sandlot.train.forest.forest import Forest, forest_of
from sandlot.train.forest.layers import PLAIN, LayerFunctions, Recompute, at_least_fp32
from sandlot.train.forest.part_attention import part_attention, parts_if_faster
from sandlot.train.forest.scores import score_tokens, to_tensor
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
    recompute: Recompute = "nothing",
    tokens: int = sys.maxsize,
    functions: LayerFunctions = PLAIN,
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
        settings = ForwardSettings(decoder, temperature, entropy=entropy, critic=critic, recompute=recompute, functions=functions)
        logprobs, spread, values = forward_depth_first(settings, forest, distinct, tokens)
    else:
        hidden = _hidden(decoder, forest, functions, recompute)
        before = hidden[to_tensor(forest.parent[distinct], device)]
        targets = to_tensor(forest.ids[distinct], device)
        logprobs, spread = score_tokens(decoder.head, before, targets, temperature, entropy=entropy, functions=functions)
        values = at_least_fp32(critic(before))[:, 0] if critic is not None else None
    return RowOutputs(
        logprobs=logprobs[gather],
        entropy=spread[gather] if entropy else None,
        values=values[gather] if values is not None and critic is not None else None,
        computed=len(forest),
    )


def _attention(decoder: Decoder, forest: Forest) -> tuple[Attend, int]:
    """The fastest attention for a forest, and how many tokens of padding it wants at the end."""
    weights = decoder.embedding.weight
    if weights.device.type != "cuda":
        return forest_attention(to_tensor(forest.last, weights.device)), 0
    dtype = torch.get_autocast_dtype("cuda") if torch.is_autocast_enabled("cuda") else weights.dtype
    shape, spare = decoder.shape, -len(forest) % BLOCK
    with_flash = has_flash(dtype, shape.heads, shape.kv_heads, shape.head)
    parts = parts_if_faster(forest, masks_are_slow=not with_flash)
    if parts is not None and has_cudnn(dtype, shape.head):
        return part_attention(parts, len(forest) + spare, weights.device), spare
    if with_flash:
        return flash_attention(_ends(forest, spare, weights.device)), spare
    spare = padded_size(len(forest)) - len(forest)
    return forest_attention(_ends(forest, spare, weights.device)), spare


def _ends(forest: Forest, spare: int, device: torch.device) -> Tensor:
    """The ends of subtrees, and of padding after them, each token of which sees itself."""
    return to_tensor(np.concatenate((forest.last, np.arange(len(forest), len(forest) + spare) + 1)), device)


def _hidden(decoder: Decoder, forest: Forest, functions: LayerFunctions, recompute: Recompute) -> Tensor:
    """Hidden states of the forest's tokens, and of padding after them."""
    device = decoder.embedding.weight.device
    attend, spare = _attention(decoder, forest)
    ids = to_tensor(np.pad(forest.ids, (0, spare)), device)
    positions = to_tensor(np.pad(forest.depth, (0, spare)), device)

    x = decoder.embedding(ids)
    cos, sin = decoder.angles(positions, x.dtype)
    recompute = recompute if torch.is_grad_enabled() else "nothing"
    # Whole compiled layers are recomputed by a backward pass of their own: the first pass stores nothing at all, and the host
    # handles no stored tensors. Only `backward` gives gradients that way, and only if what goes in wants one.
    own_pass = functions is not PLAIN
    if recompute == "everything" and own_pass and not x.requires_grad:
        x.requires_grad_()

    def again(function: Callable[..., Any], *given: Any) -> Any:
        # Nothing here is random, and keeping the generator's state takes the host longer than a small layer takes the device.
        return cast("Any", checkpoint)(function, *given, use_reentrant=own_pass, preserve_rng_state=False)

    blocks = cast("Sequence[Block]", list(decoder.blocks))
    match recompute:
        case "everything":

            def layer(number: int, block: Block, x: Tensor) -> Tensor:
                return functions.outputs(block, x, attend(number, *functions.inputs(block, x, cos, sin)))

            for number, block in enumerate(blocks):
                x = again(layer, number, block, x)
        case "all but attention" if functions.lean is None:
            for number, block in enumerate(blocks):
                x = again(functions.outputs, block, x, attend(number, *again(functions.inputs, block, x, cos, sin)))
        case _:
            fused = functions.lean if recompute == "all but attention" and functions.lean is not None else functions
            heads = fused.inputs(blocks[0], x, cos, sin)
            for number, (block, after) in enumerate(itertools.pairwise(blocks)):
                x, heads = fused.between(block, after, x, attend(number, *heads), cos, sin)
            x = fused.outputs(blocks[-1], x, attend(len(blocks) - 1, *heads))
    return decoder.norm(x)
