"""TensorBoard: event files in the run directory, or in the folder of `tensorboard:DIR`."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sandlot.observe.trackers.tracker import Settings, Tracker, import_package


def open_tensorboard(rest: str, run: Path) -> Tracker:
    """`tensorboard` or `tensorboard:DIR`."""
    import_package("tensorboard", "tensorboard")
    return _TensorBoard(Path(rest) if rest else run / "tensorboard")


class _TensorBoard:
    """A writer of event files."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._writer: Any = None

    def begin(self, name: str, settings: Settings, version: int) -> None:
        """Start a writer that hides figures of later versions, which a killed sitting left."""
        from torch.utils.tensorboard import SummaryWriter  # noqa: PLC0415 - the package is an extra

        self._writer = SummaryWriter(str(self._folder), purge_step=version + 1)
        table = "\n".join(f"| {key} | {value} |" for key, value in {"name": name, **settings}.items())
        self._writer.add_text("settings", f"| | |\n|---|---|\n{table}", version)

    def note(self, version: int, figures: Mapping[str, float]) -> None:
        """One scalar per figure."""
        for name, value in figures.items():
            self._writer.add_scalar(name, value, version)
        self._writer.flush()

    def end(self) -> None:
        """Close the files."""
        if self._writer is not None:
            self._writer.close()
