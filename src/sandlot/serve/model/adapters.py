"""The adapters of a model server: `model` in a request names one, and vLLM's routes load and remove them while it serves.

The routes are there only if the operator has named a folder; every adapter that a client loads must be below it, after links are
followed. What is below it is not trusted: `read_adapter` checks it.
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

import anyio.to_thread
import msgspec
from starlette.exceptions import HTTPException

from sandlot.core.errors import ModelError
from sandlot.core.ports.model import TokenModel

ADAPTER_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:/@-]{0,127}")
"""What an adapter may be called: it stands in replies, logs and commands."""
_MAX_PATH = 4096
_FILES = ("adapter_config.json", "adapter_model.safetensors")


class AdaptingModel(TokenModel, Protocol):
    """A token model that loads adapters while it samples."""

    adapters: dict[str, int]
    """The loaded adapters by name, with their versions."""

    async def load_adapter(self, name: str, folder: Path, *, replace: bool = False, within: Path | None = None) -> int:
        """Load a folder whose files are below `within`, and return its version."""
        ...

    async def remove_adapter(self, name: str) -> None:
        """Refuse requests for an adapter from now on."""
        ...

    def with_adapter(self, name: str) -> TokenModel:
        """The same model with an adapter."""
        ...


class LoadRequest(msgspec.Struct):
    """`POST /v1/load_lora_adapter`, as in vLLM."""

    lora_name: str
    lora_path: str
    load_inplace: bool = False
    """Replace the adapter of this name; its requests finish on what they began with."""


class UnloadRequest(msgspec.Struct):
    """`POST /v1/unload_lora_adapter`, as in vLLM."""

    lora_name: str


class ServedAdapters:
    """The adapters of a model, and the folder from which clients may load more."""

    def __init__(self, model: AdaptingModel, loads_from: Path | None = None) -> None:
        self._model = model
        self._loads_from = loads_from

    @property
    def versions(self) -> Mapping[str, int]:
        """Names and versions of what is loaded."""
        return self._model.adapters

    def model_named(self, name: str) -> TokenModel:
        """The model that a request names: the base model, also by no name, or an adapter. HTTP 404 for others."""
        if name in {"", self._model.name}:
            return self._model
        if name in self.versions:
            return self._model.with_adapter(name)
        raise HTTPException(404, f"`model`: there is no model `{name[:200]}`; served: {', '.join(self._served())}")

    async def load(self, wanted: LoadRequest) -> str:
        """Load an adapter that a client names, and say so."""
        folder = self._require_loads()
        if not ADAPTER_NAME.fullmatch(wanted.lora_name) or wanted.lora_name == self._model.name:
            raise HTTPException(
                400,
                f"`lora_name`: {wanted.lora_name[:200]!r} is not a name for an adapter; use letters, digits and `_.:/@-`, at "
                f"most 128 in all, and not the base model's `{self._model.name}`",
            )
        if wanted.lora_name in self.versions and not wanted.load_inplace:
            raise HTTPException(400, f"The lora adapter '{wanted.lora_name}' has already been loaded; `load_inplace` replaces it")
        found = await anyio.to_thread.run_sync(_folder_below, folder, wanted.lora_path)
        version = await self._model.load_adapter(wanted.lora_name, found, replace=wanted.load_inplace, within=folder)
        return f"Success: LoRA adapter '{wanted.lora_name}' added successfully, as version {version}."

    async def unload(self, wanted: UnloadRequest) -> str:
        """Remove an adapter that a client names, and say so."""
        self._require_loads()
        if wanted.lora_name not in self.versions:
            raise HTTPException(404, f"The lora adapter '{wanted.lora_name[:200]}' cannot be found; loaded: {self._listed()}")
        await self._model.remove_adapter(wanted.lora_name)
        return f"Success: LoRA adapter '{wanted.lora_name}' removed successfully."

    def _require_loads(self) -> Path:
        if self._loads_from is None:
            raise HTTPException(
                404,
                "this server loads no adapters at runtime; start it with `--adapters-from FOLDER` to allow those below FOLDER",
            )
        return self._loads_from

    def _served(self) -> list[str]:
        return [self._model.name, *self.versions]

    def _listed(self) -> str:
        return ", ".join(self.versions) or "none"


def _folder_below(allowed: Path, named: str) -> Path:
    """The folder that a client names, absolute or from `allowed`; it and its files must be below that one, links followed."""
    if not named or len(named) > _MAX_PATH or "\0" in named:
        raise HTTPException(400, f"`lora_path`: give the path of a folder, of at most {_MAX_PATH} characters")
    try:
        top = allowed.resolve(strict=True)
        folder = (top / named).resolve()
        files = [(folder / name).resolve() for name in _FILES]
        is_folder = folder.is_dir()
    except (OSError, RuntimeError):  # RuntimeError: a loop of links
        raise HTTPException(400, "`lora_path`: the path cannot be followed") from None
    if not all(path.is_relative_to(top) for path in (folder, *files)):
        raise HTTPException(403, f"`lora_path`: adapters are loaded from below {allowed} only")
    if not is_folder:
        raise ModelError(f"No adapter found for '{named}'", kind="not_found")
    return folder
