"""Linear layers with weights pre-packed for oneDNN: the same results, faster.

PyTorch reorders a bf16 matrix for oneDNN in every call, which costs more than the product if few tokens are computed. Here it is
reordered once, and again only after the weights change. The packed copy needs as much memory as the weights. For inference only.
"""

from collections.abc import Iterable
from typing import Any, cast

import torch
import torch.nn.functional as F  # noqa: N812 - the name everyone knows
from torch import Tensor, nn

from sandlot.model.nn.decoder import Decoder

_onednn = cast("Any", torch.ops.mkldnn)


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
        if x.requires_grad or torch.is_grad_enabled():
            return F.linear(x, self.weight, self.bias)
        # A write in place raises the version; new memory has a new address.
        now = (self.weight.data_ptr(), self.weight._version)  # noqa: SLF001 - torch has no other name for it
        if self._packed is None or self._packed_from != now:
            self._packed = cast("Tensor", _onednn._reorder_linear_weight(self.weight.detach(), 8))  # noqa: SLF001 - what torch.compile calls
            self._packed_from = now
        return cast("Tensor", _onednn._linear_pointwise(x, self._packed, self.bias, "none", [], ""))  # noqa: SLF001 - as above


def pack_linears(decoder: Decoder) -> Decoder:
    """Pack a decoder's linear layers if `can_pack`, else leave it unchanged."""
    if can_pack(decoder.embedding.weight):
        for name, module in list(cast("Iterable[tuple[str, nn.Module]]", decoder.named_modules())):
            if type(module) is nn.Linear:
                decoder.set_submodule(name, PackedLinear(module))
    return decoder


def can_pack(weight: Tensor) -> bool:
    """True for bf16 weights on a CPU that supports them natively."""
    if weight.device.type != "cpu" or weight.dtype != torch.bfloat16 or not torch.backends.mkldnn.is_available():
        return False
    return bool(_onednn._is_mkldnn_bf16_supported())  # noqa: SLF001 - as above
