"""The grid of tasks and rollouts, read from columns: only one page of a large run is turned into objects.

A cell is one rollout: a class for its colour, and the text for a reader who does not see it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sandlot.core.text import printable
from sandlot.store.reader import RunReader

_COLUMNS = ["task", "rollout", "outcome", "side", "kind", "score", "turns", "seconds", "started"]
_ROUNDING = 1e-9
OUTCOMES = ("passed", "lost points", "scored", "failed", "cancelled")
"""What tasks can be filtered by: those with at least one such rollout."""

Cells = list[tuple[str, list[dict[str, Any]]]]
"""Tasks, each with its rollouts by number."""


@dataclass(frozen=True, slots=True)
class TaskFilter:
    """Which tasks to show."""

    text: str = ""
    """Part of the task's id; case does not matter."""
    low: float | None = None
    high: float | None = None
    """Bounds of the task's mean score; a task without a score is outside any."""
    outcome: str = ""
    """One of `OUTCOMES`."""

    @property
    def is_empty(self) -> bool:
        """True if every task is shown."""
        return self == TaskFilter()


@dataclass(frozen=True, slots=True)
class TaskPage:
    """Some tasks of a run, and how many there are."""

    cells: Cells
    start: int
    """Number of the first task shown, among those that match."""
    num_matching: int
    num_tasks: int


@dataclass(frozen=True)
class TaskIndex:
    """The tasks of a run as columns: what they are found by."""

    names: list[str]
    """In the order they were first stored."""
    codes: Any
    """The number of the task of each row."""
    scores: Any
    """Of each row; not a number without a score."""
    passed: Any
    failed: Any
    cancelled: Any

    @classmethod
    def read(cls, reader: RunReader) -> "TaskIndex":
        """Read the columns."""
        table, pc = reader.table(["task", "score", "passed", "outcome"]), _compute()
        coded = table.column("task").combine_chunks().dictionary_encode()
        outcome, passed = table.column("outcome"), pc.fill_null(table.column("passed"), False)  # noqa: FBT003 - the value
        return cls(
            names=coded.dictionary.to_pylist(),
            codes=coded.indices.to_numpy(),
            scores=table.column("score").to_numpy().astype("f8"),
            passed=passed.to_numpy(),
            failed=pc.equal(outcome, "failed").to_numpy(),
            cancelled=pc.equal(outcome, "cancelled").to_numpy(),
        )

    def find(self, wanted: TaskFilter) -> list[int]:
        """The numbers of the tasks that match."""
        import numpy as np  # noqa: PLC0415 - the list of runs does not need it

        size, scored = len(self.names), ~np.isnan(self.scores)
        keep = np.ones(size, dtype=bool)
        if wanted.text:
            text = wanted.text.lower()
            keep &= np.fromiter((text in name.lower() for name in self.names), dtype=bool, count=size)
        if wanted.low is not None or wanted.high is not None:
            count = np.bincount(self.codes[scored], minlength=size)
            mean = np.bincount(self.codes[scored], weights=self.scores[scored], minlength=size) / np.maximum(count, 1)
            low, high = -np.inf if wanted.low is None else wanted.low, np.inf if wanted.high is None else wanted.high
            keep &= (count > 0) & (mean >= low - _ROUNDING) & (mean <= high + _ROUNDING)
        if wanted.outcome:
            chosen = {
                "passed": self.passed,
                "lost points": scored & ~self.passed,
                "scored": scored,
                "failed": self.failed,
                "cancelled": self.cancelled,
            }[wanted.outcome]
            keep &= np.bincount(self.codes[chosen], minlength=size) > 0
        return np.flatnonzero(keep).tolist()

    def rows_of(self, tasks: Sequence[int]) -> list[int]:
        """The rows of some tasks, in order."""
        import numpy as np  # noqa: PLC0415 - as above

        return np.flatnonzero(np.isin(self.codes, np.asarray(tasks, dtype=self.codes.dtype))).tolist()


def find_tasks(reader: RunReader, index: TaskIndex, wanted: TaskFilter, start: int, count: int) -> TaskPage:
    """The tasks from number `start` on that match, in the order they were first stored."""
    order = index.find(wanted)
    start = min(start, max(0, len(order) - 1) // count * count)
    chosen = order[start : start + count]
    found: dict[str, list[dict[str, Any]]] = {index.names[number]: [] for number in chosen}
    for row in reader.take(index.rows_of(chosen), _COLUMNS).to_pylist():
        if row["task"] in found:  # not so if rollouts were set aside since the index was read
            found[row["task"]].append(cell_of(row))
    cells = [(task, sorted(cells, key=lambda cell: cell["rollout"])) for task, cells in found.items()]
    return TaskPage(cells, start, len(order), len(index.names))


def find_groups(reader: RunReader, size: int, start: int, count: int) -> Cells:
    """Groups of a training in the order they were begun, from number `start` on; a group is `size` rollouts of a task.

    The order is that of the first rollout's start, epoch by epoch. After a crash, a group whose rollouts were all lost and taken
    again may change places with its neighbours.
    """
    pc = _compute()
    table = reader.table(_COLUMNS)
    epochs = pc.floor(pc.divide(pc.cast(table.column("rollout"), "double"), float(size)))
    table = table.append_column("epoch", epochs)
    groups = table.group_by(["task", "epoch"]).aggregate([("started", "min")])
    ordered = groups.sort_by([("epoch", "ascending"), ("started_min", "ascending")]).slice(start, count)
    found: Cells = []
    tasks = pc.is_in(table.column("task"), value_set=ordered.column("task").combine_chunks())
    near = table.filter(tasks).to_pylist()
    for task, epoch in zip(ordered.column("task").to_pylist(), ordered.column("epoch").to_pylist(), strict=True):
        rows = [row for row in near if row["task"] == task and row["epoch"] == epoch]
        found.append((task, [cell_of(row) for row in sorted(rows, key=lambda row: row["rollout"])]))
    return found


def cell_of(row: dict[str, Any]) -> dict[str, Any]:
    """One rollout in a grid: a class for its colour, and what is read on it."""
    score = row["score"]
    level = row["outcome"] if score is None else f"s{min(9, max(0, int(score * 10)))}"
    says = (
        (printable(f"{row['side']}/{row['kind']}", 200) if row["side"] else row["outcome"])
        if score is None
        else f"score {score:.3f}"
    )
    return {
        "rollout": row["rollout"],
        "level": level,
        "score": score,
        "says": f"rollout {row['rollout']}: {says}, {row['turns']} turns, {row['seconds']:.1f} s",
    }


def _compute() -> Any:
    import pyarrow.compute  # noqa: PLC0415 - as in store/columns.py: importing it takes long

    return pyarrow.compute
