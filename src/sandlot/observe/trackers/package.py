"""The packages of trackers are extras: what to do where one is missing."""

from importlib import import_module
from typing import Any

from sandlot.core.errors import ConfigError


def import_package(module: str, extra: str) -> Any:
    """The module, or a `ConfigError` that says how to get it."""
    try:
        return import_module(module)
    except ImportError as error:
        raise ConfigError(
            f"tracker `{extra}` needs the package `{extra}`, which cannot be imported ({error}); "
            f"install it: pip install 'sandlot[{extra}]'"
        ) from error
