"""Adapter folders that add something, and the decoders they are for."""

import copy
from pathlib import Path

import torch

from sandlot.model.nn.decoder import Decoder
from sandlot.model.nn.lora import add_adapters, load_adapter, merged_state, read_adapter, save_adapter
from sandlot.model.nn.mixed import AdapterWeights


def write_adapter(base: Decoder, folder: Path, *, seed: int, rank: int = 3, alpha: float = 6.0, size: float = 0.2) -> Path:
    """Equal bytes for an equal seed."""
    draw = torch.Generator().manual_seed(seed)
    adapted = add_adapters(copy.deepcopy(base), rank, alpha)
    with torch.no_grad():
        for parameter in adapted.parameters():
            if parameter.requires_grad:
                parameter.copy_(torch.randn(parameter.shape, generator=draw) * size)
    save_adapter(adapted, folder)
    return folder


def weights_in(base: Decoder, folder: Path) -> AdapterWeights:
    return read_adapter(folder, base.shape, dtype=base.embedding.weight.dtype)


def merged(base: Decoder, folder: Path) -> Decoder:
    """A decoder whose own weights are the sums."""
    whole = copy.deepcopy(base)
    whole.load_state_dict(merged_state(load_adapter(copy.deepcopy(base), folder)))
    return whole.requires_grad_(False)
