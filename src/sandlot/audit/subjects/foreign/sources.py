"""The source of foreign modules, found as Python would find them, but never imported."""

from collections.abc import Iterable, Sequence
from pathlib import Path

_SOURCE_BYTES = 1 << 20
"""Longer files were generated."""


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
