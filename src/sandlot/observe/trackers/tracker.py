"""A tracker: where the figures of a training run go besides its own folder. What ours and those of packages have in common."""

from collections.abc import Mapping
from typing import Protocol

Settings = Mapping[str, str | int | float]
"""A run's settings in plain words."""


class Tracker(Protocol):
    """Keeps figures somewhere. Called from one thread, in this order; may raise whatever it likes."""

    def begin(self, name: str, settings: Settings, version: int) -> None:
        """A run starts, or goes on after this version: figures of later ones, from a sitting that was killed, are void."""
        ...

    def note(self, version: int, figures: Mapping[str, float]) -> None:
        """Figures at a version: finite numbers under names such as `train/reward`."""
        ...

    def end(self) -> None:
        """Nothing more will come in this sitting; also called when nothing came at all, and after it raised."""
        ...
