"""Packages made in memory from their sources, right and spoiled, to learn what hidden cases should give."""

import sys
from collections.abc import Mapping
from itertools import count
from pathlib import Path
from types import ModuleType

DATA = Path(__file__).parent / "data"
ORDER = {
    "shelf": ("words", "lines"),
    "tally": ("amounts", "book"),
    "almanac": ("days", "moments"),
    "settings": ("layers", "texts"),
    "depot": ("lists", "store"),
    "journal": ("entries", "files"),
}
"""Modules of each package; later ones use earlier ones."""

_NUMBERS = count()


def sources(package: str) -> dict[str, str]:
    """Module name -> its text, as it should be."""
    return {name: (DATA / package / f"{name}.py").read_text(encoding="utf-8") for name in ("__init__", *ORDER[package])}


def built(package: str, texts: Mapping[str, str]) -> dict[str, ModuleType]:
    """The modules by name. They are ours, whole or spoiled: nothing an agent wrote is ever run here."""
    private = f"repo_repair_{next(_NUMBERS)}_{package}"
    made: dict[str, ModuleType] = {}
    try:
        for name in ("__init__", *ORDER[package]):
            full = private if name == "__init__" else f"{private}.{name}"
            module = sys.modules[full] = ModuleType(full)
            module.__package__ = private
            exec(compile(texts[name], f"{package}/{name}.py", "exec"), vars(module))  # noqa: S102 - our own text
            made[name] = module
    finally:
        for full in [full for full in sys.modules if full.split(".")[0] == private]:
            del sys.modules[full]
    return made
