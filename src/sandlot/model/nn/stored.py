"""Tensors in safetensors files: name, shape and type are known before data is read; nothing is unpickled."""

from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Protocol, cast

import safetensors.torch
import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

_DTYPES = {"F64": torch.float64, "F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16}


@dataclass(frozen=True, slots=True)
class StoredTensor:
    """A tensor in an open file."""

    file: Path
    size: tuple[int, ...]
    dtype: torch.dtype
    read: Callable[[], Tensor]


class _File(Protocol):
    def keys(self) -> Iterable[str]: ...
    def get_slice(self, name: str) -> Any: ...
    def get_tensor(self, name: str) -> Tensor: ...


def open_tensors(path: Path, opened: ExitStack) -> dict[str, StoredTensor]:
    """Open the tensors of a file, readable until `opened` closes; `ValueError` if it is not a valid file of float tensors."""
    if not path.is_file():
        raise ValueError(f"{path}: there is no such file")
    try:
        file = cast("_File", opened.enter_context(cast("Any", safe_open)(path, framework="pt")))
    except (SafetensorError, OSError) as error:
        raise ValueError(f"{path} is not a valid safetensors file: {error}") from error
    stored: dict[str, StoredTensor] = {}
    for name in file.keys():  # noqa: SIM118 - not a mapping
        view = file.get_slice(name)
        kind = str(view.get_dtype())
        if kind not in _DTYPES:
            raise ValueError(f"{path}: `{name}` is of type {kind}; supported: {', '.join(_DTYPES)}")
        stored[name] = StoredTensor(path, tuple(view.get_shape()), _DTYPES[kind], partial(file.get_tensor, name))
    return stored


@dataclass(frozen=True, slots=True)
class Origin:
    """The setting in which weights were trained."""

    setting: str
    """Fingerprint of the setting."""
    text: bytes
    """The content of `sandlot.json`."""


def write_tensors(path: Path, tensors: Mapping[str, Tensor], dtype: torch.dtype) -> None:
    """Write a safetensors file."""
    # Copies, because views of one parameter share memory, which the format refuses.
    copies = {name: tensor.detach().to("cpu", dtype, copy=True).contiguous() for name, tensor in tensors.items()}
    cast("Any", safetensors.torch).save_file(copies, path, metadata={"format": "pt"})
