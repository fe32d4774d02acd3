"""Progress bars on stderr: drawn on a terminal, and printed as occasional lines if stderr is a file or a pipe."""

from typing import Any

from rich.console import Console
from rich.progress import Progress, ProgressColumn, TaskID

from sandlot.core.concurrency.clock import SYSTEM_CLOCK, Clock
from sandlot.observe.progress import Pace


class Bars(Progress):
    """`rich.progress.Progress` that also writes to files. A task's field `said`, if it has one, is part of the line."""

    def __init__(self, *columns: ProgressColumn, console: Console, clock: Clock = SYSTEM_CLOCK) -> None:
        super().__init__(*columns, console=console, transient=True, refresh_per_second=4, disable=not console.is_terminal)
        self._pace = Pace(clock=clock)

    def update(self, task_id: TaskID, **changes: Any) -> None:  # pyright: ignore[reportIncompatibleMethodOverride] - passed on whole
        """Move a bar; in a file, write a line if one is due."""
        super().update(task_id, **changes)
        if self.console.is_terminal or not self._pace.due():
            return
        task = next(each for each in self.tasks if each.id == task_id)
        total = "" if task.total is None else f"/{task.total:.0f}"
        said = task.fields.get("said", "")
        self.console.print(f"{task.description} {task.completed:.0f}{total}  {said}".rstrip(), highlight=False, soft_wrap=True)
