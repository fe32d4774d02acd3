"""Two fingerprints: what the author wrote, and the setting it is run in.

The *environment's* is of the bytes of its files (README, docs and tests do not change what an environment is) and of its image.
Audits bind to it. The *setting's* adds harness, renderer, tools as served and limits: training and evaluation compare it.
"""

import hashlib
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from sandlot.env.environment import Environment
from sandlot.env.image import digest_of_image, own_image_files
from sandlot.errors import ConfigError
from sandlot.ports import ToolSpec
from sandlot.types import Json, digest

LEFT_OUT = {"audit.toml", "README.md", "README.rst", "README.txt", "README", "docs", "tests", "runs"}
"""Names at the top of an environment's folder that do not change what it is."""

ENTRY_NAMES = {"environment.toml", "environment.py"}


def environment_fingerprint(env: Environment, *, build: bool = True) -> str:
    """Of what the author wrote. Without `build`, a package list that was never installed counts by its names alone."""
    if env.source is None or not env.source.exists():
        raise ConfigError(f"environment `{env.name}` was not loaded from a file, so it has no fingerprint; write it into one")
    files = [[name, _digest_of(path)] for name, path in files_of(env)]
    return digest(msgspec.msgpack.encode([*files, ["image", env.image or "", digest_of_image(env, build=build)]]))


def setting_fingerprint(environment: str, env: Environment, tools: Sequence[ToolSpec], setting: Json) -> str:
    """Of the environment and everything a model is met with there; `setting` names harness, renderer and how turns are taken."""
    facts = [environment, env.system, env.limits, list(env.constraints), sorted(tools, key=lambda tool: tool.name), setting]
    return digest(msgspec.json.encode(facts, order="deterministic"))


def files_of(env: Environment) -> Iterator[tuple[str, Path]]:
    """Relative name and place of everything its author wrote that counts."""
    return _files(env.source, own_image_files(env)) if env.source is not None else iter(())


def _digest_of(path: Path) -> str:
    """Of a file's bytes, piece by piece: data may be larger than memory."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _files(source: Path, image: Path | None) -> Iterator[tuple[str, Path]]:
    """Relative name and place of every file that counts, in a stable order."""
    if source.is_file() and source.name not in ENTRY_NAMES:
        yield source.name, source
        return
    root = source.parent if source.is_file() else source
    for path in sorted(root.rglob("*")):
        pieces = path.relative_to(root).parts
        skipped = pieces[0] in LEFT_OUT or any(piece.startswith(".") or piece == "__pycache__" for piece in pieces)
        if image is not None and image in (path.absolute(), *path.absolute().parents):
            continue  # its digest speaks for it; a root file system has links that lead to the host's files
        if path.is_file() and not skipped:
            yield "/".join(pieces), path
