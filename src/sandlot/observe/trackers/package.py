"""Imports the package of a tracker, which is an optional extra."""

from importlib import import_module
from typing import Any

from sandlot.core.errors import ConfigError


def import_package(module: str, extra: str) -> Any:
    """The module; `ConfigError` with the install command if it is missing."""
    try:
        return import_module(module)
    except ImportError as error:
        raise ConfigError(
            f"tracker `{extra}` needs the package `{extra}`, which cannot be imported ({error}); "
            f"install it: pip install 'sandlot[{extra}]'"
        ) from error
