"""Finds the folders that a Python needs in a sandbox, and the source of foreign modules, without running anything."""

import os
import shutil
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from sandlot.core.errors import ConfigError

_SOURCE_BYTES = 1 << 20
"""Longer files were generated."""


@dataclass(frozen=True, slots=True)
class Interpreter:
    """A Python, and the folders it needs."""

    command: str
    folders: tuple[Path, ...]
    """Its virtual environment, its installation, and symbolic links between them; some may be in `/usr`."""

    @property
    def libraries(self) -> tuple[Path, ...]:
        """Folders of installed packages."""
        return tuple(found for folder in self.folders for found in sorted(folder.glob("lib/python3*/site-packages")))


def find_interpreter(named: str) -> Interpreter:
    """Find a Python by its path or its name on PATH."""
    found = shutil.which(named)
    if found is None:
        raise ConfigError(f"no Python at `{named}`; give the path of one: `--python .venv/bin/python`")
    command = Path(found).absolute()
    folders: list[Path] = []
    step = command
    for _ in range(8):  # the python of a virtual environment is a link to another one, perhaps through more links
        folders += _prefixes(step)
        if not step.is_symlink():
            break
        step = Path(os.path.normpath(step.parent / step.readlink()))
    return Interpreter(str(command), tuple(dict.fromkeys(folders)))


def _prefixes(command: Path) -> list[Path]:
    """The folder above `bin`, and for a virtual environment that of its base Python."""
    prefix = command.parent.parent
    settings = prefix / "pyvenv.cfg"
    if not settings.is_file():
        return [prefix]
    pairs = (line.partition("=") for line in settings.read_text(errors="replace").splitlines())
    home = {key.strip(): value.strip() for key, _, value in pairs}.get("home")
    return [prefix, Path(home).parent] if home else [prefix]


def sources_of(modules: Iterable[str], folders: Sequence[Path]) -> dict[str, str]:
    """Source by path of the modules found in the folders; the first folder wins, as in Python."""
    found: dict[str, str] = {}
    for module in modules:
        parts = module.split(".")
        if not all(part.isidentifier() for part in parts):
            continue  # not a module name
        for folder in folders:
            path = next((path for path in _places(folder, parts) if path.is_file()), None)
            if path is not None:
                if path.stat().st_size <= _SOURCE_BYTES:
                    found[str(path.relative_to(folder))] = path.read_text(errors="replace")
                break
    return found


def _places(folder: Path, parts: list[str]) -> tuple[Path, Path]:
    return folder.joinpath(*parts).with_suffix(".py"), folder.joinpath(*parts, "__init__.py")
