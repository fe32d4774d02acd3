"""Which folders of the machine a Python needs to be seen in a sandbox: found by looking, without running it."""

import os
import shutil
from dataclasses import dataclass
from pathlib import Path

from sandlot.core.errors import ConfigError


@dataclass(frozen=True, slots=True)
class Interpreter:
    """A Python, and what it stands on."""

    command: str
    folders: tuple[Path, ...]
    """Its virtual environment, its own files, and links on the way there; some may be in `/usr`."""

    @property
    def libraries(self) -> tuple[Path, ...]:
        """Where installed packages lie."""
        return tuple(found for folder in self.folders for found in sorted(folder.glob("lib/python3*/site-packages")))


def find_interpreter(named: str) -> Interpreter:
    """A Python by path or by a name on PATH."""
    found = shutil.which(named)
    if found is None:
        raise ConfigError(f"no Python at `{named}`; give the path of one: `--python .venv/bin/python`")
    command = Path(found).absolute()
    folders: list[Path] = []
    step = command
    for _ in range(8):  # a virtual environment's python is a link to the one it was made with, perhaps over others
        folders += _prefixes(step)
        if not step.is_symlink():
            break
        step = Path(os.path.normpath(step.parent / step.readlink()))
    return Interpreter(str(command), tuple(dict.fromkeys(folders)))


def _prefixes(command: Path) -> list[Path]:
    """The folder above `bin`, and for a virtual environment the one it was made from."""
    prefix = command.parent.parent
    settings = prefix / "pyvenv.cfg"
    if not settings.is_file():
        return [prefix]
    pairs = (line.partition("=") for line in settings.read_text(errors="replace").splitlines())
    home = {key.strip(): value.strip() for key, _, value in pairs}.get("home")
    return [prefix, Path(home).parent] if home else [prefix]
