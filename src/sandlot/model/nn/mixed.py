"""Adapters that are added to some tokens of a forward pass, beside a decoder whose own layers and weights do not change.

A batch may hold tokens of the base model and of several adapters. Every layer runs once for all tokens; then each adapter adds
its `scale * B A x` to the rows of its own tokens. Rows without an adapter are not touched, so they are bit-equal to those of a
pass without adapters.
"""

from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from sandlot.model.nn.decoder import Decoder


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class AdapterWeights:
    """An adapter for decoders of one shape, in fp32 at least; on a GPU in the type of the base model."""

    rank: int
    linears: Mapping[str, tuple[Tensor, Tensor]]
    """By the name of the decoder's layer: A `[parts * rank, in]` and B times scale, `[parts * rank, out]`.

    A layer of several Hugging Face projections has as many parts, and each part of B is zero outside its own columns, so that a
    layer needs two products. Layers that the adapter leaves alone are missing."""

    @property
    def num_bytes(self) -> int:
        """The memory it takes."""
        return sum(tensor.nbytes for pair in self.linears.values() for tensor in pair)


Share = tuple[AdapterWeights, Sequence[int]]
"""An adapter, and the tokens of a pass that it is for."""

_Segment = tuple[int, int, Tensor, Tensor]
"""Where an adapter's tokens begin and end, A and B."""


@contextmanager
def adapters_applied(decoder: Decoder, shares: Sequence[Share]) -> Generator[None]:
    """Inside the context, each adapter is added to its own tokens of every pass of the decoder. No token has two."""
    where = torch.tensor([token for _, own in shares for token in own], device=decoder.embedding.weight.device)
    layers: dict[str, list[_Segment]] = {}
    begin = 0
    for weights, own in shares:
        for name, (a, b) in weights.linears.items():
            layers.setdefault(name, []).append((begin, begin + len(own), a, b))
        begin += len(own)
    handles = [decoder.get_submodule(name).register_forward_hook(_adding(where, segments)) for name, segments in layers.items()]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def _adding(where: Tensor, segments: Sequence[_Segment]) -> Callable[[nn.Module, tuple[Tensor, ...], Tensor], None]:
    """A hook that adds the adapters' part to a layer's output, in place."""
    dtype = segments[0][2].dtype
    covers_all = sum(end - begin for begin, end, *_ in segments) == len(where)
    new = torch.empty if covers_all else torch.zeros

    def add(_layer: nn.Module, given: tuple[Tensor, ...], out: Tensor) -> None:
        x = given[0].index_select(0, where).to(dtype)
        added = new((len(where), out.shape[-1]), dtype=dtype, device=x.device)
        for begin, end, a, b in segments:
            torch.mm(torch.mm(x[begin:end], a.T), b, out=added[begin:end])
        out.index_add_(0, where, added.to(out.dtype))

    return add
