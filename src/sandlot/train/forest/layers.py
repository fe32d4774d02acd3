"""The parts of a forward pass that are the same for every layer or chunk: plain, or fused by `torch.compile`.

Eager torch writes every product, sum and cast of a layer to memory. Compiled, what stands between two matrix products is one
kernel. Attention is compiled on its own (`attention.py`): its kernels depend on the size of the forest, these do not, so that
each is compiled once for all sizes and all layers. torch keeps compiled code on disk, so a later process starts faster.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, Literal, cast

import torch
from torch import Tensor, nn

from sandlot.model.nn.decoder import Block

_VARIANTS = 256
"""More than there are sizes of forests (`padded_size`), each of which has an attention kernel of its own."""
Heads = tuple[Tensor, Tensor, Tensor]
Recompute = Literal["nothing", "all but attention", "everything"]
"""What of a layer is computed again in the backward pass instead of being stored."""


@dataclass(frozen=True, slots=True)
class LayerFunctions:
    """What a forward pass calls for each layer and for each chunk of logits."""

    inputs: Callable[[Block, Tensor, Tensor, Tensor], Heads]
    """(layer, residual stream, cosines, sines) -> queries, keys and values."""
    outputs: Callable[[Block, Tensor, Tensor], Tensor]
    """(layer, residual stream, attended) -> residual stream."""
    between: Callable[[Block, Block, Tensor, Tensor, Tensor, Tensor], tuple[Tensor, Heads]]
    """Both at once: (layer, the next one, residual stream, attended, cosines, sines) -> residual stream, the next one's heads."""
    scores: Callable[[nn.Module, Tensor, Tensor, float, bool], tuple[Tensor, Tensor]]
    """(head, hidden states, targets, temperature, entropy wanted) -> log-probabilities and entropies."""
    lean: "LayerFunctions | None" = None
    """The same functions if they can store nothing but what they are given, and compute the rest again in the backward pass."""


def at_least_fp32(x: Tensor) -> Tensor:
    """The tensor in fp32, or in fp64 if it is."""
    return x if x.dtype == torch.float64 else x.float()


def _inputs(block: Block, x: Tensor, cos: Tensor, sin: Tensor) -> Heads:
    return block.inputs(x, cos, sin)


def _outputs(block: Block, x: Tensor, attended: Tensor) -> Tensor:
    return block.outputs(x, attended)


def _between(block: Block, after: Block, x: Tensor, attended: Tensor, cos: Tensor, sin: Tensor) -> tuple[Tensor, Heads]:
    x = block.outputs(x, attended)
    return x, after.inputs(x, cos, sin)


def _scores(head: nn.Module, hidden: Tensor, targets: Tensor, temperature: float, entropy: bool) -> tuple[Tensor, Tensor]:  # noqa: FBT001 - called by position, for `checkpoint`
    logits = at_least_fp32(head(hidden)) / temperature
    whole = torch.logsumexp(logits, -1)
    chosen = logits.gather(1, targets[:, None])[:, 0] - whole
    spread = whole - (torch.softmax(logits, -1) * logits).sum(-1) if entropy else chosen.detach()
    return chosen, spread


def raise_recompile_limit() -> None:
    """Let torch keep more variants of a compiled function than its 8: it computes further ones without compiling them."""
    torch._dynamo.config.recompile_limit = max(_VARIANTS, torch._dynamo.config.recompile_limit)  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]


PLAIN = LayerFunctions(_inputs, _outputs, _between, _scores)
"""Eager torch: exact to the last bit between runs, and in fp64."""


@cache
def compiled() -> LayerFunctions:
    """The same functions compiled, for any number of tokens; equal to `PLAIN` within rounding."""
    raise_recompile_limit()
    return replace(_fused("inductor"), lean=_fused(_compile_lean))


def _fused(backend: Any) -> LayerFunctions:
    fuse = cast("Any", torch.compile)
    return LayerFunctions(*(fuse(function, dynamic=True, backend=backend) for function in (_inputs, _outputs, _between, _scores)))


def _compile_lean(graph: Any, inputs: Any) -> Any:
    """Compile a graph so that it stores only its inputs.

    The recomputation is then part of the compiled backward pass. `checkpoint` would run a forward pass and a backward pass of its
    own for each layer, for which the host takes longer than the device if the forest is small.
    """
    import torch._functorch.config as functorch_config  # noqa: PLC0415 - only where something is compiled
    from torch._inductor.compile_fx import compile_fx  # noqa: PLC0415

    with cast("Any", functorch_config).patch(activation_memory_budget=0.0):
        return compile_fx(graph, inputs)
