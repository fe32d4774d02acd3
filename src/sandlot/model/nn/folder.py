"""Read and write Hugging Face folders: `config.json` and safetensors only.

Files are not trusted: tensor sizes are compared with the config before memory is allocated, an index cannot name files outside
the folder, and nothing is unpickled. Every `ValueError` names the file and the tensor. A folder is written completely or not at
all.
"""

import json
import shutil
from contextlib import ExitStack
from pathlib import Path
from typing import Any, cast

import torch
from torch.overrides import TorchFunctionMode

from sandlot.core.disk import replace_folder
from sandlot.model.nn.decoder import Decoder
from sandlot.model.nn.layout import check_shapes, copy_weights, weights_of
from sandlot.model.nn.shape import ORIGIN, Shape, config_of, read_json, read_shape
from sandlot.model.nn.stored import Origin, StoredTensor, open_tensors, write_tensors

_WEIGHTS = "model.safetensors"
_INDEX = "model.safetensors.index.json"
COMPANIONS = (
    "tokenizer.json", "tokenizer_config.json", "generation_config.json", "special_tokens_map.json", "chat_template.jinja",
    "added_tokens.json", "vocab.json", "merges.txt", "LICENSE",
)  # fmt: skip
"""Files of a model other than weights and config; `save_folder` copies them."""
MODEL_FILES = ("config.json", _WEIGHTS, _INDEX, ORIGIN, *COMPANIONS)
_TIED_HEAD = "lm_head.weight"


def load_folder(path: Path | str, *, dtype: torch.dtype | None = None, device: torch.device | str = "cpu") -> Decoder:
    """Load a model; without `dtype` in the type of its stored embedding."""
    path = Path(path)
    shape = read_shape(path)
    with ExitStack() as opened:
        stored = _open_all(path, opened)
        for name in [name for name in stored if name.endswith("rotary_emb.inv_freq")]:
            del stored[name]  # a constant in old files
        tied_head = stored.pop(_TIED_HEAD, None) if shape.tied else None
        try:
            check_shapes(shape, {name: tensor.size for name, tensor in stored.items()})
        except ValueError as error:
            raise ValueError(f"{path}: {error}") from error
        decoder = empty_decoder(shape, dtype or stored["model.embed_tokens.weight"].dtype, device)
        copy_weights(decoder, lambda name: stored[name].read())
        if tied_head is not None and not torch.equal(tied_head.read(), stored["model.embed_tokens.weight"].read()):
            raise ValueError(f"{path}: `{_TIED_HEAD}` differs from the embedding, but the config sets tie_word_embeddings")
    return decoder


def stored_dtype(path: Path | str) -> torch.dtype:
    """The type in which `load_folder` loads a model by default."""
    with ExitStack() as opened:
        return _open_all(Path(path), opened)["model.embed_tokens.weight"].dtype


def empty_decoder(shape: Shape, dtype: torch.dtype, device: torch.device | str) -> Decoder:
    """A decoder with uninitialised weights, to be filled."""
    with _Uninitialised(dtype, device):
        return Decoder(shape)


class _Uninitialised(TorchFunctionMode):
    """Creates modules in the given type and on the given device, without random initialisation."""

    def __init__(self, dtype: torch.dtype, device: torch.device | str) -> None:
        super().__init__()
        self.made = {"dtype": dtype, "device": device}

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if getattr(func, "__module__", None) == "torch.nn.init":
            return kwargs["tensor"]
        return func(*args, **(kwargs | self.made if func in {torch.empty, torch.ones} else kwargs))


def save_folder(
    decoder: Decoder,
    path: Path | str,
    *,
    dtype: torch.dtype | None = None,
    like: Path | None = None,
    origin: Origin | None = None,
) -> None:
    """Write config and weights under Hugging Face names, atomically replacing an older model.

    Tokenizer, template and generation settings are copied from the folder `like`. `origin` is the setting the weights were
    trained in: it is written to `sandlot.json`, its fingerprint to `sandlot_setting` in `config.json`.
    """
    dtype = dtype or decoder.embedding.weight.dtype
    with replace_folder(Path(path), MODEL_FILES) as new:
        config = {**config_of(decoder.shape), "dtype": str(dtype).removeprefix("torch.")}
        if like is not None:
            config |= _special_ids(like)
            for name in COMPANIONS:
                if (like / name).is_file():
                    shutil.copyfile(like / name, new / name)
        if origin is not None:
            config["sandlot_setting"] = origin.setting
            (new / ORIGIN).write_bytes(origin.text)
        (new / "config.json").write_text(json.dumps(config, indent=2) + "\n")
        write_tensors(new / _WEIGHTS, weights_of(decoder), dtype)


def _special_ids(folder: Path) -> dict[str, Any]:
    config = read_json(folder / "config.json")
    return {key: config[key] for key in ("bos_token_id", "eos_token_id", "pad_token_id") if key in config}


def _open_all(path: Path, opened: ExitStack) -> dict[str, StoredTensor]:
    """Open every tensor of a folder's single file, or of the files that its index names."""
    if (path / _WEIGHTS).is_file():
        return open_tensors(path / _WEIGHTS, opened)
    if not (path / _INDEX).is_file():
        raise ValueError(f"{path} has neither {_WEIGHTS} nor {_INDEX}; only safetensors are supported")
    mapped = read_json(path / _INDEX).get("weight_map")
    if not isinstance(mapped, dict) or not mapped:
        raise ValueError(f"{path / _INDEX}: no `weight_map`")
    mapped = cast("dict[str, object]", mapped)
    stored: dict[str, StoredTensor] = {}
    for name in sorted({str(file) for file in mapped.values()}):
        if Path(name).name != name or not name.endswith(".safetensors"):
            raise ValueError(f"{path / _INDEX}: `{name}` is not the name of a safetensors file in this folder")
        stored |= open_tensors(path / name, opened)
    wrong = [name for name in mapped.keys() | stored.keys() if name not in stored or mapped.get(name) != stored[name].file.name]
    if wrong:
        raise ValueError(f"{path / _INDEX}: the index and the files disagree about `{min(wrong)}`")
    return stored
