"""The text of foreign modules, found where Python would find them and never imported."""

from collections.abc import Iterable, Sequence
from pathlib import Path

_SOURCE_BYTES = 1 << 20
"""What is longer was made by a program."""


def sources_of(modules: Iterable[str], folders: Sequence[Path]) -> dict[str, str]:
    """Text by path, of those modules that lie in one of the folders; the first that has it counts, as for Python."""
    found: dict[str, str] = {}
    for module in modules:
        parts = module.split(".")
        if not all(part.isidentifier() for part in parts):
            continue  # a name that leads elsewhere
        for folder in folders:
            path = next((path for path in _places(folder, parts) if path.is_file()), None)
            if path is not None:
                if path.stat().st_size <= _SOURCE_BYTES:
                    found[str(path.relative_to(folder))] = path.read_text(errors="replace")
                break
    return found


def _places(folder: Path, parts: list[str]) -> tuple[Path, Path]:
    return folder.joinpath(*parts).with_suffix(".py"), folder.joinpath(*parts, "__init__.py")
