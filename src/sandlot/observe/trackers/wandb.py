"""Weights & Biases, offline: files in the run directory that `wandb sync` uploads.

Everything that the package collects by itself is off: console output, git state, code, machine facts.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sandlot.core.errors import ConfigError
from sandlot.core.types import digest
from sandlot.observe.trackers.tracker import Settings, Tracker, import_package


def open_wandb(rest: str, run: Path) -> Tracker:
    """`wandb` or `wandb:PROJECT`."""
    if rest and not rest.replace("-", "").replace("_", "").isalnum():
        raise ConfigError(f"tracker `wandb:{rest}`: write `wandb:PROJECT`, a name of letters, digits, `-` and `_`")
    return _Wandb(import_package("wandb", "wandb"), rest or "sandlot", run)


class _Wandb:
    """An offline run of Weights & Biases."""

    def __init__(self, package: Any, project: str, run: Path) -> None:
        self._package, self._project, self._place = package, project, run
        self._run: Any = None

    def begin(self, name: str, settings: Settings, version: int) -> None:
        """One folder per sitting and one id for all: an upload with `--append` joins them."""
        folder = self._place / "wandb" / f"after-{version:06d}"
        folder.mkdir(parents=True, exist_ok=True)
        quiet = self._package.Settings(
            console="off", disable_git=True, disable_code=True, save_code=False, disable_job_creation=True, silent=True,
            x_disable_stats=True, x_disable_meta=True, x_disable_machine_info=True, host="-",
        )  # fmt: skip
        self._run = self._package.init(
            project=self._project,
            name=name,
            id=digest(str(self._place.resolve()).encode())[:16],
            mode="offline",
            dir=str(folder),
            config=dict(settings),
            settings=quiet,
        )

    def note(self, version: int, figures: Mapping[str, float]) -> None:
        """One row per version; later figures of the same version join it."""
        self._run.log(dict(figures), step=version)

    def end(self) -> None:
        """Close the files."""
        if self._run is not None:
            self._run.finish()
