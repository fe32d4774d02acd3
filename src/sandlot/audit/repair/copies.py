"""A copy of the author's folder, in which changes are tried."""

import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import msgspec

from sandlot.audit.reports.folder import place_of
from sandlot.audit.subjects.foreign.grader import open_grader
from sandlot.audit.subjects.named import NamedSubject, SubjectOptions, find_subject, grader_config
from sandlot.core.errors import ConfigError

_LEFT_OUT = frozenset({".git", ".venv", "venv", "node_modules", "__pycache__", "runs", ".cache", ".mypy_cache", ".ruff_cache"})
_MAX_BYTES = 256 * 2**20


@dataclass(frozen=True, slots=True)
class SubjectCopy:
    """Where the author's files are, and where their copy is."""

    options: SubjectOptions
    base: Path
    """The author's folder."""
    folder: Path
    """The copy of it."""

    def named(self, **models: str | None) -> NamedSubject:
        """The copy as something to audit."""
        if self.options.grader is not None:
            config = grader_config(self.options)
            moved = msgspec.structs.replace(config, path=(str(self.folder), *config.path[1:]))
            start = partial(open_grader, moved, without_sandbox=self.options.without_sandbox)
            return NamedSubject(config.grader, str(self.folder), start)
        assert self.options.env is not None
        inside = Path(place_of(self.options.env)).relative_to(self.base)
        return find_subject(replace(self.options, env=str(self.folder / inside)), **models)  # pyright: ignore[reportArgumentType]

    def own(self, sources: Mapping[str, str]) -> dict[str, str]:
        """Those of the subject's sources that are files of the author's folder, as they are in the copy."""
        return {
            name: text for name, text in sources.items() if _is_inside(self.folder, name) and _text(self.folder / name) == text
        }

    def write(self, files: Mapping[str, str]) -> None:
        """Write files of the copy."""
        for name, text in files.items():
            (self.folder / name).write_text(text)


def base_of(options: SubjectOptions) -> Path:
    """The folder of the author's files; `ConfigError` if there is none that could be changed."""
    if options.grader is not None:
        return Path(grader_config(options).path[0]).resolve()
    if options.env is None:
        raise ConfigError("`--fix` changes graders and Sandlot environments; a Gymnasium environment has no grader to change")
    place = place_of(options.env)
    if place.startswith("installed:"):
        raise ConfigError(
            f"`{options.env}` is installed; to change it, copy its folder and name that: `sandlot audit ./FOLDER --fix`"
        )
    path = Path(place)
    return path if path.is_dir() else path.parent


def copy_of(options: SubjectOptions, into: Path) -> SubjectCopy:
    """Copy the author's folder."""
    base, folder = base_of(options), into / "copy"
    size = 0
    for root, folders, files in os.walk(base):
        folders[:] = [name for name in folders if name not in _LEFT_OUT]
        size += sum((Path(root) / name).lstat().st_size for name in files)
        if size > _MAX_BYTES:
            raise ConfigError(f"`{base}` has more than {_MAX_BYTES >> 20} MiB; put the environment into a folder of its own")
    shutil.copytree(base, folder, symlinks=True, ignore=lambda _root, names: [name for name in names if name in _LEFT_OUT])
    return SubjectCopy(options, base, folder)


def _is_inside(folder: Path, name: str) -> bool:
    return (folder / name).resolve().is_relative_to(folder.resolve()) and (folder / name).is_file()


def _text(path: Path) -> str | None:
    try:
        return path.read_text()
    except (OSError, UnicodeDecodeError):
        return None
