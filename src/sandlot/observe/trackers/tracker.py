"""A tracker: a place outside the run directory for the figures of a training run. Built-in and installed ones share this port."""

from collections.abc import Mapping
from typing import Protocol

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
