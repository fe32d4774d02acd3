"""Whole model folders small enough for tests: a random decoder with the tokenizer and template of a real family."""

from pathlib import Path

import torch
import torch._dynamo  # the first optimiser imports it: two CPU-seconds, which are not the price of the test that trains first

from builders.model_folders import FAMILIES
from sandlot.model.nn.decoder import Decoder
from sandlot.model.nn.folder import save_folder
from sandlot.model.nn.shape import Shape

CONTEXT = 512
VOCABULARY = 512


def tiny_shape() -> Shape:
    return Shape(
        family="llama", vocabulary=VOCABULARY, hidden=32, layers=2, heads=2, kv_heads=1, head=16, mlp=64, context=CONTEXT
    )


def write_tiny(folder: Path, family: str = "qwen2") -> Path:
    """Equal bytes every time."""
    torch.manual_seed(7)
    save_folder(Decoder(tiny_shape()), folder)
    return FAMILIES[family](folder)
