"""Two fingerprints: one of the environment, one of the setting it runs in.

The *environment's* fingerprint covers the bytes of its files and of its image. An audit is valid for one fingerprint. The files:

- of a folder (with `environment.toml` or `environment.py`, or an installed package): every file except README, docs and tests,
- of one file: that file, and the data files beside it whose names are in its text,
- of both: every module of its own folder that it imports, at the top or inside a function.

`sandlot show ENV` lists them. The *setting's* fingerprint adds harness, renderer, tools and limits: training and evaluation
compare it.
"""

import hashlib
import os
from collections.abc import Sequence
from pathlib import Path

import msgspec

from sandlot.core.errors import ConfigError
from sandlot.core.ports.world import ToolSpec
from sandlot.core.types import Json, digest
from sandlot.env.closure import files_of_folder, imported_files, named_files
from sandlot.env.environment import Environment
from sandlot.env.image import digest_of_image, image_files_path
from sandlot.env.module import loaded_files

_ENTRY_NAMES = {"environment.toml", "environment.py"}


def environment_fingerprint(env: Environment, *, build: bool = True) -> str:
    """The environment's fingerprint. Without `build`, a package list that is not installed yet counts by its names."""
    files = [[name, found] for name, found in _digests_of_files(env).items()]
    return digest(msgspec.msgpack.encode([*files, ["image", env.image or "", digest_of_image(env, build=build)]]))


def fingerprint_parts(env: Environment) -> dict[str, str]:
    """The digest of everything that the fingerprint covers, by name: what differs between two environments can be said."""
    image = {f"image {env.image}": digest_of_image(env)} if env.image else {}
    return {f"`{name}`": found for name, found in _digests_of_files(env).items()} | image


def _digests_of_files(env: Environment) -> dict[str, str]:
    if env.source is None or not env.source.exists():
        raise ConfigError(f"environment `{env.name}` was not loaded from a file, so it has no fingerprint; save it as a file")
    return {name: _digest_of(path) for name, path in files_of(env)}


def setting_fingerprint(environment: str, env: Environment, tools: Sequence[ToolSpec], setting: Json) -> str:
    """The setting's fingerprint. `setting` holds harness, renderer and how turns are taken."""
    facts = [environment, env.system, env.limits, list(env.constraints), sorted(tools, key=lambda tool: tool.name), setting]
    return digest(msgspec.json.encode(facts, order="deterministic"))


def files_of(env: Environment) -> list[tuple[str, Path]]:
    """Relative name and path of every file that the fingerprint covers, sorted."""
    if env.source is None:
        return []
    whole = _whole(env, env.source)
    root = whole or env.source.parent
    found = modules_of(env)
    if whole is None:
        found |= named_files(found, root)
    else:
        found |= files_of_folder(whole)
    image = image_files_path(env)  # covered by the image's digest; a root file system may link to files of the host
    return sorted(
        (_name(path, root), path) for path in found if image is None or image not in (path.absolute(), *path.absolute().parents)
    )


def modules_of(env: Environment) -> set[Path]:
    """The environment's modules that were loaded, and those of its folder that they import."""
    if env.source is None:
        return set()
    root = _whole(env, env.source) or env.source.parent
    modules = [*loaded_files(env.source), *loaded_files(root), *([] if env.source.is_dir() else [env.source])]
    return imported_files(modules, root)


def _whole(env: Environment, source: Path) -> Path | None:
    """The folder that is the environment; None if it is one file."""
    if env.package is not None:
        return env.package
    if source.is_dir():
        return source
    return source.parent if source.name in _ENTRY_NAMES else None


def _name(path: Path, root: Path) -> str:
    """A file's path relative to the environment's folder; it may begin with `../` for modules of its package."""
    return Path(os.path.relpath(path, root)).as_posix()


def _digest_of(path: Path) -> str:
    """The SHA-256 of a file, which may be larger than memory."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
