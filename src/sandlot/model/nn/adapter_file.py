"""The files of an adapter folder, which anyone may have written, and may be writing now.

A file is opened once, without following links, where its resolved path was; it is read whole into memory, no more than was asked
for, and parsed from there. So what is checked is what is used, and a file that is cut while it is read is an error, not a signal.
"""

import json
import os
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import safetensors.torch
import torch
from safetensors import SafetensorError
from torch import Tensor

_DTYPES = {"F64": torch.float64, "F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16}
_HEADER_BYTES, _NAME_BYTES = 4096, 256
"""What a header may have, at most, and for each tensor."""


def read_file(path: Path, most: int, within: Path | None = None) -> bytes:
    """Read a regular file of at most `most` bytes; `ValueError` if it is none, or not below `within` after links are followed."""
    try:
        top = Path(within or "/").resolve(strict=True)
        real = path.resolve()
        if not real.is_relative_to(top):
            raise ValueError(f"{path} is not below {within}")
        with open(_open_below(top, real.relative_to(top).parts), "rb") as file:
            found = os.fstat(file.fileno())
            if not stat.S_ISREG(found.st_mode):
                raise ValueError(f"{path}: there is no such file (what is there is not a regular one)")
            if found.st_size > most:
                raise ValueError(f"{path} has {found.st_size} bytes; the maximum is {most}")
            return file.read(most)
    except FileNotFoundError:
        raise ValueError(f"there is no file {path}") from None
    except (OSError, RuntimeError) as error:  # RuntimeError: a loop of links
        raise ValueError(f"{path} cannot be read: {error}") from error


def _open_below(top: Path, parts: tuple[str, ...]) -> int:
    """Open a file step by step; a link that was put there after the path was resolved is not followed."""
    here = os.open(top, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    for index, part in enumerate(parts):
        # Non-blocking, or a pipe would be waited for.
        kind = os.O_NONBLOCK if index == len(parts) - 1 else os.O_DIRECTORY
        try:
            below = os.open(part, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | kind, dir_fd=here)
        finally:
            os.close(here)
        here = below
    return here


def read_wanted(path: Path, wanted: Mapping[str, tuple[int, ...]], within: Path | None = None) -> dict[str, Tensor]:
    """Read a safetensors file that holds some of the wanted tensors, by name and size, and nothing else."""
    header = _HEADER_BYTES + _NAME_BYTES * len(wanted)
    largest = max(dtype.itemsize for dtype in _DTYPES.values())
    most = 8 + header + largest * sum(torch.Size(size).numel() for size in wanted.values())
    data = read_file(path, most, within)
    num_header = int.from_bytes(data[:8], "little")
    if not 2 <= num_header <= header:
        raise ValueError(
            f"{path} is not a valid safetensors file of this model: its header has {num_header} bytes, not 2 to {header}"
        )
    try:
        described = json.loads(data[8 : 8 + num_header])
        kinds = {name: str(each["dtype"]) for name, each in described.items() if name != "__metadata__"}
    except (ValueError, RecursionError, AttributeError, TypeError, KeyError) as error:
        raise ValueError(f"{path} is not a valid safetensors file: its header cannot be read ({type(error).__name__})") from error
    for name, kind in kinds.items():
        if name not in wanted:
            raise ValueError(f"{path}: `{name[:200]}`: the model has no such projection")
        if kind not in _DTYPES:
            raise ValueError(f"{path}: `{name}` is of type {kind[:20]}; supported: {', '.join(_DTYPES)}")
    try:
        tensors = cast("dict[str, Tensor]", cast("Any", safetensors.torch).load(data))
    except (SafetensorError, ValueError, KeyError, RuntimeError) as error:
        raise ValueError(f"{path} is not a valid safetensors file: {error}") from error
    for name, tensor in sorted(tensors.items()):
        if tuple(tensor.shape) != wanted.get(name):
            raise ValueError(f"{path}: `{name}` has shape {list(tensor.shape)}; the model needs {list(wanted.get(name, ()))}")
    return tensors
