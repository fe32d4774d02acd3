"""Finds the folders that a Python needs in a sandbox, and the source of foreign modules, without running anything."""

import ast
import os
import shutil
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from sandlot.core.errors import ConfigError
from sandlot.core.syntax import parse_python

_SOURCE_BYTES = 1 << 20
"""Longer files were generated."""
_MOST_FILES = 60
_STEPS = 2
"""How far imports within an installed package are followed."""
_WELL_KNOWN = frozenset(
    {
        "numpy",
        "scipy",
        "sympy",
        "pandas",
        "torch",
        "transformers",
        "datasets",
        "sklearn",
        "matplotlib",
        "PIL",
        "tensorflow",
        "jax",
        "ray",
    }
    | {
        "requests",
        "httpx",
        "aiohttp",
        "pydantic",
        "openai",
        "anthropic",
        "litellm",
        "nltk",
        "spacy",
        "regex",
        "yaml",
        "pytest",
        "setuptools",
    }
)


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
    found = [_source_of(module, folders) for module in modules]
    return {source.path: source.text for source in reversed(found) if source is not None}


def sources_from(module: str, own: Sequence[Path], libraries: Sequence[Path]) -> dict[str, str]:
    """Source by path of a module and of what it imports, a few steps far.

    Modules in folders of one's own are followed to the end. Of installed packages, those that such a module imports are read, and
    what these import of the same package; large ones that everybody knows are left out.
    """
    found: dict[str, str] = {}
    seen: set[str] = set()
    waiting = [(module, 0)]
    while waiting and len(found) < _MOST_FILES:
        name, steps = waiting.pop(0)
        if name in seen or name.partition(".")[0] in _WELL_KNOWN:
            continue
        seen.add(name)
        mine = _source_of(name, own)
        source = mine or _source_of(name, libraries)
        if source is None:
            continue
        found[source.path] = source.text
        top = name.partition(".")[0]
        near = [other for other in _imports(source) if mine or (steps < _STEPS and other.partition(".")[0] == top)]
        waiting += [(other, 0 if mine else steps + 1) for other in near]
    return found


@dataclass(frozen=True, slots=True)
class _Source:
    """The source of one module."""

    package: str
    """What its relative imports begin at."""
    path: str
    text: str


def _source_of(module: str, folders: Sequence[Path]) -> _Source | None:
    """The source; None if it is not in the folders, or too long."""
    parts = module.split(".")
    if not all(part.isidentifier() for part in parts):
        return None  # not a module name
    for folder in folders:
        path = next((path for path in _places(folder, parts) if path.is_file()), None)
        if path is not None:
            package = module if path.name == "__init__.py" else module.rpartition(".")[0]
            short = path.stat().st_size <= _SOURCE_BYTES
            return _Source(package, str(path.relative_to(folder)), path.read_text(errors="replace")) if short else None
    return None


def _imports(source: _Source) -> list[str]:
    """Names that a module imports: each may be a module or something in one."""
    try:
        tree = parse_python(source.text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return []
    found: list[str] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found.extend(name.name for name in node.names)
        elif isinstance(node, ast.ImportFrom):
            steps = source.package.split(".")
            above = steps[: len(steps) - node.level + 1] if node.level else []
            base = ".".join([*above, *([node.module] if node.module else [])])
            found += [base, *(f"{base}.{name.name}" for name in node.names)] if base else []
    return list(dict.fromkeys(found))


def _places(folder: Path, parts: list[str]) -> tuple[Path, Path]:
    return folder.joinpath(*parts).with_suffix(".py"), folder.joinpath(*parts, "__init__.py")
