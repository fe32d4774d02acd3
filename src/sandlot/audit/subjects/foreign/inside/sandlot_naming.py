"""Imports `module:name` from foreign code; errors say what is missing and how to fix it."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence
from typing import Any

MAX_NAMES = 12


class Unloadable(Exception):  # noqa: N818 - what it is
    """It cannot be loaded; the message says how to fix it, so no traceback is needed."""


def resolve(name: str, folders: Sequence[str]) -> Any:
    """Import `module:attribute`; it must be callable."""
    module, _, attribute = name.partition(":")
    found = import_named(module, folders)
    for part in attribute.split("."):
        if not hasattr(found, part):
            there = ", ".join([each for each in dir(found) if not each.startswith("_")][:MAX_NAMES])
            raise Unloadable(f"`{name}`: there is no `{part}`; there are: {there or 'no names at all'}")
        found = getattr(found, part)
    if not callable(found):
        raise Unloadable(f"`{name}` is a {type(found).__name__}, which cannot be called")
    return found


def import_named(module: str, folders: Sequence[str]) -> Any:
    """Import a module. Errors raised inside the module are not caught."""
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        missing = error.name or module
        if module == missing or module.startswith(f"{missing}."):
            raise Unloadable(
                f"no module `{missing}` in {', '.join(folders)}, and none that {sys.executable} has installed; start in "
                "its folder, or name the Python that has it with `--python`"
            ) from None
        raise Unloadable(
            f"module `{module}` imports `{missing}`, which {sys.executable} does not have; install it there, or name a Python "
            "that has it with `--python`"
        ) from None
