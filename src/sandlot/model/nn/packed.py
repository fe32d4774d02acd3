"""Linear layers with weights pre-packed for oneDNN: the same results, faster.

PyTorch reorders a bf16 matrix for oneDNN in every call, which costs more than the product if few tokens are computed. Here it is
reordered once, and again only after the weights change. In fp32, PyTorch calls MKL, which reorders the matrix in every call too
and takes up to 2.8 times as long for 4 to 32 tokens. The packed copy needs as much memory as the weights. For inference only.
"""

import platform
from collections.abc import Iterable
from functools import cache
from typing import Any, cast

import torch
import torch.nn.functional as F  # noqa: N812 - the name everyone knows
from torch import Tensor, nn

from sandlot.model.nn.decoder import Decoder

_onednn = cast("Any", torch.ops.mkldnn)
_FEW = 4
"""Below this many tokens MKL reads an fp32 matrix as it is, and is as fast or faster."""
_SMALL = 250_000
"""Numbers of an fp32 matrix below which calling oneDNN takes longer than it saves."""


class PackedLinear(nn.Module):
    """Replaces a linear layer and shares its parameters, under the same names."""

    def __init__(self, linear: nn.Linear) -> None:
        super().__init__()
        self.original = (linear,)  # in a tuple, so that it is not a submodule
        self.weight, self.bias = linear.weight, linear.bias
        self._packed: Tensor | None = None
        self._packed_from = (0, 0)

    def forward(self, x: Tensor) -> Tensor:
        """Apply the layer."""
        few = x.dtype == torch.float32 and x.numel() < _FEW * x.shape[-1]
        if few or x.requires_grad or torch.is_grad_enabled():
            return F.linear(x, self.weight, self.bias)
        return cast("Tensor", _onednn._linear_pointwise(x, self._pack(), self.bias, "none", [], ""))  # noqa: SLF001 - what torch.compile calls

    def apply_in_fp32(self, x: Tensor) -> Tensor:
        """Apply the layer and keep about 17 bits of the result instead of 8; needs `can_add_in_fp32`.

        oneDNN has fp32 sums but returns bf16. A second pass subtracts the first result from the sums, which leaves what rounding
        removed. Both passes are faster than one in fp32.
        """
        rounded = self(x)
        rest = _onednn._linear_pointwise.binary(x, -rounded, self._pack(), self.bias, "add")  # noqa: SLF001 - as above
        return rounded.float().add_(rest)

    def __getstate__(self) -> dict[str, Any]:
        """Without the packed weights, which torch cannot copy: a copy packs its own."""
        return {**self.__dict__, "_packed": None, "_packed_from": (0, 0)}

    def _pack(self) -> Tensor:
        """The packed weights, packed again if the weights changed."""
        # A write in place raises the version; new memory has a new address.
        now = (self.weight.data_ptr(), self.weight._version)  # noqa: SLF001 - torch has no other name for it
        if self._packed is None or self._packed_from != now:
            self._packed = cast("Tensor", _onednn._reorder_linear_weight(self.weight.detach(), 8))  # noqa: SLF001 - as above
            self._packed_from = now
        return self._packed


def pack_linears(decoder: Decoder) -> Decoder:
    """Pack those of a decoder's linear layers that `can_pack` names."""
    for name, module in list(cast("Iterable[tuple[str, nn.Module]]", decoder.named_modules())):
        if type(module) is nn.Linear and can_pack(module.weight):
            decoder.set_submodule(name, PackedLinear(module))
    return decoder


def can_pack(weight: Tensor) -> bool:
    """True for bf16 weights on a CPU that supports them natively, and for large fp32 weights on x86-64."""
    if weight.device.type != "cpu" or not torch.backends.mkldnn.is_available():
        return False
    if weight.dtype == torch.float32:  # measured on x86-64 only: elsewhere PyTorch does not call MKL
        return weight.numel() >= _SMALL and platform.machine().lower() in {"x86_64", "amd64"}
    return weight.dtype == torch.bfloat16 and bool(_onednn._is_mkldnn_bf16_supported())  # noqa: SLF001 - as above


@cache
def can_add_in_fp32() -> bool:
    """True if oneDNN adds to a bf16 product before rounding it, which not every processor's kernels do."""
    with torch.inference_mode(mode=False), torch.no_grad():
        linear = nn.Linear(512, 512, bias=False, dtype=torch.bfloat16, device="meta").to_empty(device="cpu")
        nn.init.ones_(linear.weight)
        given = torch.ones(8, 512, dtype=torch.bfloat16)
        given[:, 0] = 2.0  # the sum is 513, and bf16 has only multiples of 4 there
        return bool((PackedLinear(linear).apply_in_fp32(given) == 513.0).all())
