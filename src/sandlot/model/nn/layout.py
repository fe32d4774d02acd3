"""Maps every Hugging Face tensor to its place in the decoder.

Hugging Face has one tensor per projection; the decoder joins projections that share an input. A `Piece` is one Hugging Face
tensor as rows of one of our parameters. Loading, saving, weight updates and LoRA use this table.
"""

from collections.abc import Callable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

import torch
from torch import Tensor

from sandlot.model.nn.adapter import adapted_linears
from sandlot.model.nn.decoder import Decoder
from sandlot.model.nn.shape import Shape


@dataclass(frozen=True, slots=True)
class Piece:
    """One Hugging Face tensor: `parameter[start : start + shape[0]]`."""

    name: str
    """Hugging Face's name: `model.layers.0.self_attn.k_proj.weight`."""
    parameter: str
    """Our parameter: `blocks.0.qkv.weight`."""
    start: int
    shape: tuple[int, ...]

    def of(self, parameter: Tensor) -> Tensor:
        """A view of its rows."""
        return parameter[self.start : self.start + self.shape[0]]


@dataclass(frozen=True, slots=True)
class Projection:
    """A Hugging Face linear layer as rows of one of ours."""

    name: str
    """`model.layers.0.self_attn.k_proj`."""
    linear: str
    """`blocks.0.qkv`."""
    start: int
    rows: int
    columns: int
    bias: bool


def pieces(shape: Shape) -> Iterator[Piece]:
    """Every tensor of a model of this shape. A tied head has no tensor."""
    yield Piece("model.embed_tokens.weight", "embedding.weight", 0, (shape.vocabulary, shape.hidden))
    for projection in projections(shape):
        size = (projection.rows, projection.columns)
        yield Piece(f"{projection.name}.weight", f"{projection.linear}.weight", projection.start, size)
        if projection.bias:
            yield Piece(f"{projection.name}.bias", f"{projection.linear}.bias", projection.start, size[:1])
    yield from _norms(shape)
    if not shape.tied:
        yield Piece("lm_head.weight", "head.weight", 0, (shape.vocabulary, shape.hidden))


def projections(shape: Shape) -> Iterator[Projection]:
    """Every linear layer of every block, without the head."""
    queries, keys = shape.heads * shape.head, shape.kv_heads * shape.head
    for layer in range(shape.layers):
        theirs, ours = f"model.layers.{layer}", f"blocks.{layer}"
        start = 0
        for letter, rows in (("q", queries), ("k", keys), ("v", keys)):
            name = f"{theirs}.self_attn.{letter}_proj"
            yield Projection(name, f"{ours}.qkv", start, rows, shape.hidden, shape.qkv_bias)
            start += rows
        yield Projection(f"{theirs}.self_attn.o_proj", f"{ours}.output", 0, shape.hidden, queries, shape.output_bias)
        yield Projection(f"{theirs}.mlp.gate_proj", f"{ours}.gate_up", 0, shape.mlp, shape.hidden, shape.mlp_bias)
        yield Projection(f"{theirs}.mlp.up_proj", f"{ours}.gate_up", shape.mlp, shape.mlp, shape.hidden, shape.mlp_bias)
        yield Projection(f"{theirs}.mlp.down_proj", f"{ours}.down", 0, shape.hidden, shape.mlp, shape.mlp_bias)


def _norms(shape: Shape) -> Iterator[Piece]:
    for layer in range(shape.layers):
        theirs, ours = f"model.layers.{layer}", f"blocks.{layer}"
        yield Piece(f"{theirs}.input_layernorm.weight", f"{ours}.before_attention.weight", 0, (shape.hidden,))
        yield Piece(f"{theirs}.post_attention_layernorm.weight", f"{ours}.before_mlp.weight", 0, (shape.hidden,))
        if shape.qk_norm:
            yield Piece(f"{theirs}.self_attn.q_norm.weight", f"{ours}.q_norm.weight", 0, (shape.head,))
            yield Piece(f"{theirs}.self_attn.k_norm.weight", f"{ours}.k_norm.weight", 0, (shape.head,))
    yield Piece("model.norm.weight", "norm.weight", 0, (shape.hidden,))


def weights_of(decoder: Decoder) -> dict[str, Tensor]:
    """The weights under Hugging Face names, detached: views of the parameters; adapted layers are merged copies."""
    parameters = {name: parameter.detach() for name, parameter in decoder.named_parameters()}
    for name, linear in adapted_linears(decoder):
        parameters[f"{name}.weight"] = linear.merged_weight()
    return {piece.name: piece.of(parameters[piece.parameter]) for piece in pieces(decoder.shape)}


def put_weights(decoder: Decoder, weights: Mapping[str, Tensor]) -> None:
    """Overwrite all weights in place, cast to the decoder's type. Names and shapes are checked first."""
    check_shapes(decoder.shape, {name: tuple(tensor.shape) for name, tensor in weights.items()})
    if any(adapted_linears(decoder)):
        raise ValueError("the decoder has adapters, which would be added to the new weights; remove them first")
    copy_weights(decoder, weights.__getitem__)


def copy_weights(decoder: Decoder, tensor: Callable[[str], Tensor]) -> None:
    """Fill every parameter, one tensor at a time."""
    parameters = dict(decoder.named_parameters())
    with torch.no_grad():
        for piece in pieces(decoder.shape):
            piece.of(parameters[piece.parameter]).copy_(tensor(piece.name))


def check_shapes(shape: Shape, given: Mapping[str, tuple[int, ...]]) -> None:
    """`ValueError` names tensors that are missing, unknown or of the wrong size."""
    wanted = {piece.name: piece.shape for piece in pieces(shape)}
    if missing := wanted.keys() - given.keys():
        raise ValueError(f"{_listing(missing)} missing; a {shape.family} of {shape.layers} layers has {len(wanted)} tensors")
    if unknown := given.keys() - wanted.keys():
        raise ValueError(f"{_listing(unknown)} unknown; a {shape.family} of {shape.layers} layers has {len(wanted)} tensors")
    for name, size in wanted.items():
        if given[name] != size:
            raise ValueError(f"`{name}` has shape {list(given[name])}; the config requires {list(size)}")


def _listing(names: AbstractSet[str]) -> str:
    first = ", ".join(f"`{name}`" for name in sorted(names)[:3])
    more = len(names) - 3
    return f"{first} and {more} more are" if more > 0 else f"{first} {'are' if len(names) > 1 else 'is'}"
