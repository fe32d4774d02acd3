"""A tracker: a place outside the run directory for the figures of a training run. Built-in and installed ones share this port."""

from collections.abc import Mapping
from importlib import import_module
from typing import Any, Protocol

from sandlot.core.errors import ConfigError

Settings = Mapping[str, str | int | float]
"""A run's settings by name."""


class Tracker(Protocol):
    """Stores figures. Its methods are called from one thread, in this order, and may raise any error."""

    def begin(self, name: str, settings: Settings, version: int) -> None:
        """A run starts, or continues after `version`: figures of later versions, from a sitting that was killed, are void."""
        ...

    def note(self, version: int, figures: Mapping[str, float]) -> None:
        """Store figures of a version: finite numbers under names such as `train/reward`."""
        ...

    def end(self) -> None:
        """End this sitting. Also called if there were no figures, and after an error."""
        ...


def import_package(module: str, extra: str) -> Any:
    """The module of a tracker, whose package is an optional extra; `ConfigError` with the install command if it is missing."""
    try:
        return import_module(module)
    except ImportError as error:
        raise ConfigError(
            f"tracker `{extra}` needs the package `{extra}`, which cannot be imported ({error}); "
            f"install it: pip install 'sandlot[{extra}]'"
        ) from error
