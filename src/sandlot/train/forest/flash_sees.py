# pyright: reportMissingImports=false, reportUnknownVariableType=false, reportUnknownMemberType=false, reportUnknownParameterType=false
# pyright: reportMissingParameterType=false, reportUntypedFunctionDecorator=false, reportUnknownArgumentType=false
"""The forest's mask for single tokens, as FlashAttention 4 compiles it; imported only if that is installed."""

import cutlass
from cutlass import cute
from flash_attn.cute import utils


@cute.jit
def sees(batch, head, query, key, lengths, extra):  # noqa: ANN001, ANN201, ARG001 - as FlashAttention calls it
    """Whether a query sees a key: it is in the key's subtree."""
    end = utils.scalar_to_ssa(extra[0][key[0]], cutlass.Int32)
    return (key <= query) & (query < end)
