"""LoRA on every linear layer of every block (not embedding, not head), and adapters as PEFT writes them.

`adapted` puts adapters on a decoder; from then on only they learn. `weights_of`, `summed_state` and `save_folder` give the sum.
`save_adapter` and `load_adapter` exchange them with PEFT, vLLM and anyone else who reads that format.
"""

import json
import math
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from itertools import groupby
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from sandlot.core.disk import replace_folder
from sandlot.model.nn.adapter import AdaptedLinear, adapted_linears
from sandlot.model.nn.decoder import Decoder
from sandlot.model.nn.layout import projections
from sandlot.model.nn.packed import PackedLinear
from sandlot.model.nn.shape import ORIGIN, read_json
from sandlot.model.nn.stored import Origin, Stored, stored_in, write_tensors

CONFIG, WEIGHTS = "adapter_config.json", "adapter_model.safetensors"
_PREFIX = "base_model.model."
_OFF: dict[str, Any] = {
    "use_dora": False, "use_rslora": False, "fan_in_fan_out": False, "bias": "none", "modules_to_save": None,
    "rank_pattern": {}, "alpha_pattern": {}, "layers_to_transform": None, "lora_bias": False,
}  # fmt: skip
"""What PEFT can do and we do not, and how it says that it is off."""


def adapted(decoder: Decoder, rank: int, alpha: float = 32.0, *, seed: int = 0) -> Decoder:
    """The same decoder with adapters that add nothing yet, and everything else frozen. The seed decides where they start from."""
    if any(adapted_linears(decoder)):
        raise ValueError("the decoder has adapters already; fold or take them off first")
    if rank < 1 or not 0 < alpha < math.inf:
        raise ValueError(f"rank {rank} and alpha {alpha} make no adapter; both must be above 0")
    decoder.requires_grad_(requires_grad=False)
    draw = torch.Generator().manual_seed(seed)
    for name, joined in groupby(projections(decoder.shape), key=lambda projection: projection.linear):
        rows = [projection.rows for projection in joined]
        linear = decoder.get_submodule(name)
        linear = linear.original[0] if isinstance(linear, PackedLinear) else linear
        assert isinstance(linear, nn.Linear)
        decoder.set_submodule(name, AdaptedLinear(linear, rows, rank, alpha / rank, draw))
    return decoder


def adapter_parameters(decoder: Decoder) -> list[nn.Parameter]:
    """What learns."""
    return [parameter for _, linear in adapted_linears(decoder) for parameter in (linear.lora_a, linear.lora_b)]


def merge(decoder: Decoder) -> None:
    """Compute with the sums, as fast as without adapters. Training needs `unmerge` first."""
    for _, linear in adapted_linears(decoder):
        linear.merge()


def unmerge(decoder: Decoder) -> None:
    """Back to base and adapters apart, bit by bit."""
    for _, linear in adapted_linears(decoder):
        linear.unmerge()


def plain(decoder: Decoder, *, fold: bool) -> Decoder:
    """The same decoder without adapters: their sums folded in, or the base as it was."""
    for name, adapter in list(adapted_linears(decoder)):
        if fold:
            adapter.merge()
        else:
            adapter.unmerge()
        decoder.set_submodule(name, adapter.original[0])
    return decoder.requires_grad_()


def summed_state(decoder: Decoder) -> dict[str, Tensor]:
    """The state of a decoder without adapters that computes the same: what is sampled from while this one learns."""
    state = {name: tensor for name, tensor in decoder.state_dict().items() if not name.endswith((".lora_a", ".lora_b"))}
    return state | {f"{name}.weight": linear.summed() for name, linear in adapted_linears(decoder)}


def adapter_weights(decoder: Decoder) -> dict[str, Tensor]:
    """A and B of every projection under PEFT's names: views."""
    return {name: tensor.detach() for name, tensor in _named(decoder)}


def _named(decoder: Decoder) -> Iterator[tuple[str, Tensor]]:
    linears = dict(adapted_linears(decoder))
    for name, joined in groupby(projections(decoder.shape), key=lambda projection: projection.linear):
        for projection, (a, b) in zip(joined, linears[name].parts(), strict=True):
            yield f"{_PREFIX}{projection.name}.lora_A.weight", a
            yield f"{_PREFIX}{projection.name}.lora_B.weight", b


def save_adapter(
    decoder: Decoder, path: Path | str, *, base: str = "", dtype: torch.dtype = torch.float32, origin: Origin | None = None
) -> None:
    """Write the adapters in PEFT's format, all or nothing.

    `base` is where the model they belong to lies; `origin` says in which setting they were trained, as in `save_folder`.
    """
    first = next(adapted_linears(decoder), None)
    if first is None:
        raise ValueError("the decoder has no adapters to save; `adapted` puts them on")
    _, linear = first
    config: dict[str, Any] = {
        "peft_type": "LORA",
        "task_type": "CAUSAL_LM",
        "base_model_name_or_path": base,
        "r": linear.rank,
        "lora_alpha": linear.scale * linear.rank,
        "lora_dropout": 0.0,
        "inference_mode": True,
        "target_modules": sorted({projection.name.rpartition(".")[2] for projection in projections(decoder.shape)}),
        **_OFF,
    }
    with replace_folder(Path(path), (CONFIG, WEIGHTS, ORIGIN)) as new:
        (new / CONFIG).write_text(json.dumps(config, indent=2) + "\n")
        write_tensors(new / WEIGHTS, adapter_weights(decoder), dtype)
        if origin is not None:
            (new / ORIGIN).write_bytes(origin.text)


def load_adapter(decoder: Decoder, path: Path | str) -> Decoder:
    """The same decoder with the adapters of a folder; projections the folder leaves out keep adapters that add nothing.

    `ValueError` names what does not fit, before anything changes.
    """
    path = Path(path)
    rank, alpha = _read_config(path / CONFIG)
    with ExitStack() as opened:
        stored = _checked(path / WEIGHTS, decoder, rank, opened)
        _fill(adapted(decoder, rank, alpha), stored)
    return decoder


def put_adapter(decoder: Decoder, path: Path | str) -> None:
    """Overwrite the adapters a decoder has with a folder's, which must be of the same rank and strength."""
    path = Path(path)
    rank, alpha = _read_config(path / CONFIG)
    has = {(linear.rank, linear.scale) for _, linear in adapted_linears(decoder)}
    if not has or any(own != rank or not math.isclose(scale * own, alpha) for own, scale in has):
        told = ", ".join(f"rank {own} and alpha {scale * own:g}" for own, scale in has) or "no adapters"
        raise ValueError(f"{path}: adapters of rank {rank} and alpha {alpha:g}; the decoder has {told}")
    with ExitStack() as opened:
        _fill(decoder, _checked(path / WEIGHTS, decoder, rank, opened))


def _checked(path: Path, decoder: Decoder, rank: int, opened: ExitStack) -> dict[str, Stored]:
    """What a file holds, if all of it fits the decoder."""
    stored = stored_in(path, opened)
    wanted: dict[str, tuple[int, ...]] = {}
    for projection in projections(decoder.shape):
        wanted[f"{_PREFIX}{projection.name}.lora_A.weight"] = (rank, projection.columns)
        wanted[f"{_PREFIX}{projection.name}.lora_B.weight"] = (projection.rows, rank)
    for name, tensor in stored.items():
        if tensor.size != wanted.get(name):
            fits = f"the model asks for {list(wanted[name])}" if name in wanted else "the model has no such projection"
            raise ValueError(f"{path}: `{name}` is {list(tensor.size)}; {fits}")
    return stored


def _fill(decoder: Decoder, stored: Mapping[str, Stored]) -> None:
    with torch.no_grad():
        for name, tensor in _named(decoder):
            if name in stored:
                tensor.copy_(stored[name].read())


def _read_config(path: Path) -> tuple[int, float]:
    config = read_json(path)
    if config.get("peft_type") != "LORA":
        raise ValueError(f"{path}: peft_type is `{config.get('peft_type')}`; there is: LORA")
    for key, off in _OFF.items():
        if config.get(key, off) not in (off, None):
            raise ValueError(f"{path}: `{key}` is {config[key]!r}, which is not supported")
    rank, alpha = config.get("r"), config.get("lora_alpha", 0)
    if type(rank) is not int or not 0 < rank <= 4096 or type(alpha) not in {int, float} or not 0 < alpha < math.inf:
        raise ValueError(f"{path}: r is {rank!r} and lora_alpha is {alpha!r}; both must be numbers above 0")
    return rank, float(alpha)
