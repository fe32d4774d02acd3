"""Imports `module:name` from foreign code; errors say what is missing and how to fix it."""

from __future__ import annotations

import importlib
import importlib.util
import sys
import types
from collections.abc import Sequence
from typing import Any, cast

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
                "its folder, add that to `path` in a grader.toml or gym.toml, or name the Python that has it with `--python`"
            ) from None
        raise Unloadable(
            f"module `{module}` imports `{missing}`, which is not in {', '.join(folders)}, and {sys.executable} lacks it: "
            "if it is a file of yours, add its folder to `path` in a grader.toml or gym.toml; if it is a package, install it "
            "there, or name a Python that has it with `--python`; if grading does not use it, name it in `stand_ins`"
        ) from None


class Anything:
    """Stands for whatever a package has: it can be called, is a base class, and leaves what it decorates as it is."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """What it decorates, else itself."""
        return args[0] if len(args) == 1 and not kwargs and callable(args[0]) else self

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return self

    def __getitem__(self, key: Any) -> Any:
        return self

    def __or__(self, other: Any) -> Any:
        return self

    __ror__ = __or__

    def __mro_entries__(self, bases: Any) -> tuple[type, ...]:
        return (object,)


class _EmptyModule(types.ModuleType):
    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return Anything()


class StandInFinder:
    """Finds modules of packages that are not there (an import finder and loader)."""

    def __init__(self, names: Sequence[str]) -> None:
        self._names = tuple(names)

    def find_spec(self, name: str, _path: Any = None, _target: Any = None) -> Any:
        """A module with every attribute, if its package is one of the names."""
        known = any(name == each or name.startswith(f"{each}.") for each in self._names)
        return importlib.util.spec_from_loader(name, cast("Any", self), is_package=True) if known else None

    def create_module(self, spec: Any) -> types.ModuleType:
        """An empty one."""
        return _EmptyModule(spec.name)

    def exec_module(self, module: types.ModuleType) -> None:
        """There is nothing to run."""


def stand_in(names: Sequence[str]) -> None:
    """Let imports of these packages succeed where they are not installed. What is there is still imported first."""
    if names:
        sys.meta_path.append(cast("Any", StandInFinder(names)))
