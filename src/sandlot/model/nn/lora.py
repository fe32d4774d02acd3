"""LoRA on every linear layer of every block (not embedding, not head), stored in PEFT's format.

After `add_adapters` only the adapters are trained. `weights_of`, `merged_state` and `save_folder` give the merged weights.
`save_adapter` and `load_adapter` write and read adapter folders that PEFT and vLLM understand; `read_adapter` reads one beside a
decoder, for a pass that mixes several (`mixed.py`).
"""

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - the name everyone knows
from torch import Tensor, nn

from sandlot.core.disk import replace_folder
from sandlot.model.nn.adapter import AdaptedLinear, adapted_linears
from sandlot.model.nn.adapter_file import read_file, read_wanted
from sandlot.model.nn.decoder import Decoder
from sandlot.model.nn.layout import Projection, projections
from sandlot.model.nn.mixed import AdapterWeights
from sandlot.model.nn.packed import PackedLinear
from sandlot.model.nn.shape import ORIGIN, Shape, parse_json
from sandlot.model.nn.stored import Origin, write_tensors

CONFIG, WEIGHTS = "adapter_config.json", "adapter_model.safetensors"
_PICKLE = "adapter_model.bin"
_MAX_CONFIG = 2**20
_PREFIX = "base_model.model."
_OFF: dict[str, Any] = {
    "use_dora": False, "use_rslora": False, "fan_in_fan_out": False, "bias": "none", "modules_to_save": None,
    "rank_pattern": {}, "alpha_pattern": {}, "layers_to_transform": None, "lora_bias": False,
}  # fmt: skip
"""PEFT options that change what an adapter adds, with the values that disable them, as we write them."""
_HARMLESS = frozenset({
    "peft_type", "r", "lora_alpha",  # read, and checked
    "task_type", "base_model_name_or_path", "revision", "inference_mode", "auto_mapping", "peft_version", "model_type",
    "target_modules", "exclude_modules", "layers_pattern",  # which layers: the tensors say it
    "lora_dropout", "ensure_weight_tying", "megatron_core", "runtime_config", "qalora_group_size",
    "init_lora_weights", "bias",  # with values of their own
})  # fmt: skip
"""Keys of a config that may have any value, or that are checked by themselves. Any other key must be off: PEFT gets new variants
of LoRA with every release, and one that is not known would be added wrongly without a word."""
_INITS = (True, False, None, "gaussian", "eva", "orthogonal")
"""Values of `init_lora_weights` that leave the base as it is; `pissa`, `olora`, `loftq`, `corda` and others change it."""


def add_adapters(decoder: Decoder, rank: int, alpha: float = 32.0, *, seed: int = 0) -> Decoder:
    """Add adapters to a decoder and freeze everything else. New adapters add zero; the seed sets the initial values of A."""
    if any(adapted_linears(decoder)):
        raise ValueError("the decoder already has adapters; load it again without them")
    if rank < 1 or not 0 < alpha < math.inf:
        raise ValueError(f"rank is {rank} and alpha is {alpha}; both must be above 0")
    decoder.requires_grad_(requires_grad=False)
    draw = torch.Generator().manual_seed(seed)
    for name, joined in groupby(projections(decoder.shape), key=lambda projection: projection.linear):
        rows = [projection.rows for projection in joined]
        linear = decoder.get_submodule(name)
        linear = linear.original[0] if isinstance(linear, PackedLinear) else linear
        assert isinstance(linear, nn.Linear)
        decoder.set_submodule(name, AdaptedLinear(linear, rows, rank, alpha / rank, draw))
    return decoder


def merged_state(decoder: Decoder) -> dict[str, Tensor]:
    """The state of an equivalent decoder without adapters, for the engine."""
    state = {name: tensor for name, tensor in decoder.state_dict().items() if not name.endswith((".lora_a", ".lora_b"))}
    return state | {f"{name}.weight": linear.merged_weight() for name, linear in adapted_linears(decoder)}


def adapter_weights(decoder: Decoder) -> dict[str, Tensor]:
    """Views of A and B of every projection, under PEFT's names."""
    return {name: tensor.detach() for name, tensor in _named(decoder)}


def _named(decoder: Decoder) -> Iterator[tuple[str, Tensor]]:
    linears = dict(adapted_linears(decoder))
    for name, joined in groupby(projections(decoder.shape), key=lambda projection: projection.linear):
        for projection, (a, b) in zip(joined, linears[name].parts(), strict=True):
            yield _stored_name(projection, "A"), a
            yield _stored_name(projection, "B"), b


def save_adapter(
    decoder: Decoder, path: Path | str, *, base: str = "", dtype: torch.dtype = torch.float32, origin: Origin | None = None
) -> None:
    """Write the adapters in PEFT's format, atomically.

    `base` is the path of the base model; `origin` is the setting they were trained in, as in `save_folder`.
    """
    first = next(adapted_linears(decoder), None)
    if first is None:
        raise ValueError("the decoder has no adapters to save; call `add_adapters` first")
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
    """Add a folder's adapters to a decoder; projections that the folder lacks get adapters that add zero.

    `ValueError` names what does not match, before anything changes.
    """
    path = Path(path)
    rank, alpha = _read_config(path / CONFIG)
    stored = _read_weights(path / WEIGHTS, decoder.shape, rank)
    _fill(add_adapters(decoder, rank, alpha), stored)
    return decoder


def put_adapter(decoder: Decoder, path: Path | str) -> None:
    """Overwrite a decoder's adapters with a folder's of the same rank and alpha."""
    path = Path(path)
    rank, alpha = _read_config(path / CONFIG)
    has = {(linear.rank, linear.scale) for _, linear in adapted_linears(decoder)}
    if not has or any(own != rank or not math.isclose(scale * own, alpha) for own, scale in has):
        found = ", ".join(f"rank {own} and alpha {scale * own:g}" for own, scale in has) or "no adapters"
        raise ValueError(f"{path}: adapters of rank {rank} and alpha {alpha:g}; the decoder has {found}")
    _fill(decoder, _read_weights(path / WEIGHTS, decoder.shape, rank))


def read_adapter(
    path: Path | str, shape: Shape, *, dtype: torch.dtype = torch.float32, max_rank: int = 4096, within: Path | None = None
) -> AdapterWeights:
    """Read a folder's adapter for decoders of this shape. `dtype` is that of the base; the adapter has at least fp32.

    The folder is not trusted: its files must be below `within` after links are followed, sizes and rank are checked before
    weights are read, nothing is unpickled, and `ValueError` names what is wrong: also a value that is not finite, and a half of
    a pair, which would add nothing without a word.
    """
    path = Path(path)
    rank, alpha = _read_config(path / CONFIG, within)
    if rank > max_rank:
        raise ValueError(f"{path}: the adapter's rank is {rank}; the maximum is {max_rank}")
    if not (path / WEIGHTS).exists() and (path / _PICKLE).exists():
        raise ValueError(f"{path}: {_PICKLE} is a pickle, which can run code when it is read; save the adapter with safetensors")
    dtype, linears = torch.promote_types(dtype, torch.float32), dict[str, tuple[Tensor, Tensor]]()
    stored = _read_weights(path / WEIGHTS, shape, rank, within)
    if not stored:
        raise ValueError(f"{path / WEIGHTS}: there are no tensors")
    for name, joined in groupby(projections(shape), key=lambda projection: projection.linear):
        whole = list(joined)
        if parts := [projection for projection in whole if _has_pair(projection, stored, path)]:
            a, b = _read_joined(parts, whole[-1].start + whole[-1].rows, stored, alpha / rank, dtype)
            if not (a.isfinite().all() and b.isfinite().all()):
                raise ValueError(f"{path / WEIGHTS}: a value of `{name}` ({parts[0].name}, ...) is not finite")
            linears[name] = a, b
    return AdapterWeights(rank, linears)


def _has_pair(projection: Projection, stored: Mapping[str, Tensor], path: Path) -> bool:
    found = [name for letter in "AB" if (name := _stored_name(projection, letter)) in stored]
    if len(found) == 1:
        raise ValueError(f"{path / WEIGHTS}: `{found[0]}` is there without its other half")
    return bool(found)


def _read_joined(
    parts: Sequence[Projection], width: int, stored: Mapping[str, Tensor], scale: float, dtype: torch.dtype
) -> tuple[Tensor, Tensor]:
    """A and B of the projections in one layer, as `AdapterWeights` has them."""
    a = [stored[_stored_name(part, "A")].to(dtype) for part in parts]
    b = [stored[_stored_name(part, "B")].to(dtype).T for part in parts]
    padded = [F.pad(own, (part.start, width - part.start - part.rows)) for part, own in zip(parts, b, strict=True)]
    return torch.cat(a), torch.cat(padded) * scale


def _stored_name(projection: Projection, letter: str) -> str:
    return f"{_PREFIX}{projection.name}.lora_{letter}.weight"


def _read_weights(path: Path, shape: Shape, rank: int, within: Path | None = None) -> dict[str, Tensor]:
    """Read the tensors of a file, all of which must match the shape."""
    wanted: dict[str, tuple[int, ...]] = {}
    for projection in projections(shape):
        wanted[_stored_name(projection, "A")] = (rank, projection.columns)
        wanted[_stored_name(projection, "B")] = (projection.rows, rank)
    return read_wanted(path, wanted, within)


def _fill(decoder: Decoder, stored: Mapping[str, Tensor]) -> None:
    with torch.no_grad():
        for name, tensor in _named(decoder):
            if name in stored:
                tensor.copy_(stored[name])


def _read_config(path: Path, within: Path | None = None) -> tuple[int, float]:
    config = parse_json(read_file(path, _MAX_CONFIG, within), path)
    if config.get("peft_type") != "LORA":
        raise ValueError(f"{path}: peft_type is `{config.get('peft_type')}`; supported: LORA")
    for key, value in config.items():
        if key not in _HARMLESS and value not in (None, False, "", [], {}):
            raise ValueError(f"{path}: `{key[:100]}` is {_shortened(value)}, which is not supported")
    if config.get("bias") not in (None, "none"):
        raise ValueError(f"{path}: `bias` is {_shortened(config['bias'])}, which is not supported")
    if (init := config.get("init_lora_weights")) not in _INITS or type(init) in {int, float}:
        raise ValueError(
            f"{path}: `init_lora_weights` is {_shortened(init)}, which changes the base model's weights too; save the adapter "
            "converted to plain LoRA (PEFT: `path_initial_model_for_weight_conversion`), or merge it"
        )
    rank, alpha = config.get("r"), config.get("lora_alpha", 0)
    if type(rank) is not int or not 0 < rank <= 4096 or type(alpha) not in {int, float} or not 0 < alpha < math.inf:
        raise ValueError(f"{path}: r is {rank!r} and lora_alpha is {alpha!r}; both must be numbers above 0")
    return rank, float(alpha)


def _shortened(value: object) -> str:
    return repr(value)[:100]
