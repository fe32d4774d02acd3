"""Rotary position embedding: frequencies and rotation."""

import math

import torch
from torch import Tensor

from sandlot.model.nn.shape import Rope, Shape


def frequencies(shape: Shape) -> tuple[Tensor, float]:
    """Inverse frequencies of one head's pairs (fp32), and the factor on cosines and sines."""
    rope, width = shape.rope, shape.head
    inverse = rope.theta ** -(torch.arange(0, width, 2, dtype=torch.float32, device="cpu") / width)
    match rope.kind:
        case "linear":
            return inverse / rope.factor, 1.0
        case "llama3":
            return _llama3(inverse, rope), 1.0
        case "yarn":
            return _yarn(inverse, rope, width), rope.attention_factor or 0.1 * math.log(max(rope.factor, 1.0)) + 1.0
        case _:
            return inverse, 1.0


def _llama3(inverse: Tensor, rope: Rope) -> Tensor:
    """Low frequencies are scaled down, high ones kept, those between interpolated."""
    wave = 2 * math.pi / inverse
    smooth = (rope.original_context / wave - rope.low_factor) / (rope.high_factor - rope.low_factor)
    smooth = smooth.clamp(0, 1)
    return inverse * (smooth + (1 - smooth) / rope.factor)


def _yarn(inverse: Tensor, rope: Rope, width: int) -> Tensor:
    """YaRN: interpolated by the number of rotations within the original context."""

    def dimension(rotations: float) -> float:
        return width * math.log(rope.original_context / (rotations * 2 * math.pi)) / (2 * math.log(rope.theta))

    low = max(math.floor(dimension(rope.beta_fast)), 0)
    high = min(math.ceil(dimension(rope.beta_slow)), width - 1)
    kept = 1 - ((torch.arange(width // 2, dtype=torch.float32, device="cpu") - low) / max(high - low, 0.001)).clamp(0, 1)
    return inverse / rope.factor * (1 - kept) + inverse * kept


def rotated(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Rotate heads `[tokens, heads, width]` by cosines and sines `[tokens, 1, width]`, with pairs in halves."""
    first, second = x.chunk(2, dim=-1)
    return x * cos + torch.cat((-second, first), dim=-1) * sin
