"""The decoder over flat tokens: no batch dimension, no padding, no mask.

A forward pass takes ids and positions of tokens from any number of sequences, and an `Attend` function that computes attention.
The engine's reads paged KV blocks, the trainer's masks a token forest; the module is the same. Projections that share an input
are one matrix (`qkv`, `gate_up`); `layout.py` maps them to Hugging Face's tensors.
"""

from collections.abc import Callable, Iterable
from typing import Any, cast

import torch
import torch.nn.functional as F  # noqa: N812 - the name everyone knows
from torch import Tensor, nn

from sandlot.model.nn.rope import frequencies, rotated
from sandlot.model.nn.shape import Shape

_EXACT = {torch.float32, torch.float64}
Attend = Callable[[int, Tensor, Tensor, Tensor], Tensor]
"""(layer, queries `[tokens, heads, width]`, keys and values `[tokens, kv_heads, width]`) -> `[tokens, heads, width]`."""


class Decoder(nn.Module):
    """A Llama, Qwen2 or Qwen3 model."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.shape = shape
        self.embedding = nn.Embedding(shape.vocabulary, shape.hidden)
        self.blocks = nn.ModuleList(Block(shape) for _ in range(shape.layers))
        self.norm = _Norm(shape.hidden, shape.norm_eps)
        self.head = nn.Linear(shape.hidden, shape.vocabulary, bias=False)
        if shape.tied:
            self.head.weight = self.embedding.weight
        inverse, self.rope_factor = frequencies(shape)
        # Kept as a plain attribute: a buffer would follow `.to(bfloat16)`, and angles need fp32.
        self.inverse_frequencies = inverse

    def forward(self, ids: Tensor, positions: Tensor, attend: Attend) -> Tensor:
        """Hidden states `[tokens, hidden]` after the last norm."""
        x = self.embedding(ids)
        cos, sin = self.angles(positions, x.dtype)
        for layer, block in enumerate(cast("Iterable[Block]", self.blocks)):
            q, k, v = block.inputs(x, cos, sin)
            x = block.outputs(x, attend(layer, q, k, v))
        return self.norm(x)

    def angles(self, positions: Tensor, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
        """Cosines and sines `[tokens, 1, width]` of the rotary angles."""
        if self.inverse_frequencies.device != positions.device:
            self.inverse_frequencies = self.inverse_frequencies.to(positions.device)
        angles = positions.float()[:, None] * self.inverse_frequencies
        angles = torch.cat((angles, angles), dim=-1)[:, None, :]
        return (angles.cos() * self.rope_factor).to(dtype), (angles.sin() * self.rope_factor).to(dtype)

    def logits(self, hidden: Tensor) -> Tensor:
        """Logits over the vocabulary, in the weights' type."""
        return self.head(hidden)


class Block(nn.Module):
    """One layer in two halves, before and after attention, so that the caller can choose the attention."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.heads, self.kv_heads, self.width = shape.heads, shape.kv_heads, shape.head
        self.before_attention = _Norm(shape.hidden, shape.norm_eps)
        self.qkv = nn.Linear(shape.hidden, (shape.heads + 2 * shape.kv_heads) * shape.head, bias=shape.qkv_bias)
        self.q_norm = _Norm(shape.head, shape.norm_eps) if shape.qk_norm else nn.Identity()
        self.k_norm = _Norm(shape.head, shape.norm_eps) if shape.qk_norm else nn.Identity()
        self.output = nn.Linear(shape.heads * shape.head, shape.hidden, bias=shape.output_bias)
        self.before_mlp = _Norm(shape.hidden, shape.norm_eps)
        self.gate_up = nn.Linear(shape.hidden, 2 * shape.mlp, bias=shape.mlp_bias)
        self.down = nn.Linear(shape.mlp, shape.hidden, bias=shape.mlp_bias)

    @property
    def head_norms(self) -> tuple[Tensor, Tensor, float] | None:
        """The weights of the queries' and the keys' norm and its epsilon, if heads are normalised."""
        if isinstance(self.q_norm, _Norm) and isinstance(self.k_norm, _Norm):
            return self.q_norm.weight, self.k_norm.weight, self.q_norm.eps
        return None

    def inputs(self, x: Tensor, cos: Tensor, sin: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Queries, keys and values, normalised and rotated."""
        heads = self.qkv(self.before_attention(x)).unflatten(-1, (-1, self.width))
        # Autocast leaves the results of norm and rotation in fp32; attention wants one type.
        if isinstance(self.q_norm, nn.Identity):
            both, v = heads.split((self.heads + self.kv_heads, self.kv_heads), dim=1)
            turned = cast("Any", rotated(both, cos, sin).type_as(v))
            q, k = turned.split((self.heads, self.kv_heads), dim=1)
            return q, k, v
        q, k, v = heads.split((self.heads, self.kv_heads, self.kv_heads), dim=1)
        return rotated(self.q_norm(q), cos, sin).type_as(v), rotated(self.k_norm(k), cos, sin).type_as(v), v

    def outputs(self, x: Tensor, attended: Tensor) -> Tensor:
        """The residual stream after attention and MLP."""
        x = x + self.output(attended.flatten(1))
        gate, up = self.gate_up(self.before_mlp(x)).chunk(2, dim=-1)
        return x + self.down(F.silu(gate) * up)


class _Norm(nn.Module):
    """RMS norm, computed in fp32 or fp64."""

    def __init__(self, width: int, eps: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.eps = eps

    def forward(self, x: Tensor) -> Tensor:
        """Normalise to unit mean square, then multiply by the weight."""
        if x.device.type == "cpu" and x.dtype == self.weight.dtype in _EXACT and not torch.is_grad_enabled():
            return F.rms_norm(x, self.weight.shape, self.weight, self.eps)  # the same numbers in half the time
        exact = x.to(torch.promote_types(x.dtype, torch.float32))
        exact = exact * torch.rsqrt(exact.square().mean(-1, keepdim=True) + self.eps)
        return self.weight * exact.to(x.dtype)
