"""Lists of stored runs and of the tasks of a run, with their scores.

No trace is opened, and only the needed columns are read: runs of hundreds of thousands of rollouts list in a second.
"""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import msgspec
from numpy import bincount

from sandlot.core.errors import SandlotError
from sandlot.core.stats.intervals import Interval, Sums, clustered_mean
from sandlot.run.learners import StoredModels
from sandlot.run.results import RECIPE, Run
from sandlot.store.columns import Table

_PROGRESS = "progress.jsonl"
"""A file of a training run, which `sandlot.train` writes."""


class CatalogEntry(msgspec.Struct, frozen=True, kw_only=True):
    """One run of a folder of runs."""

    run: str
    """Its directory."""
    kind: str = "run"
    """`run` or `training`."""
    environment: str = ""
    source: str = ""
    """The environment's file or folder."""
    model: str = ""
    created: float = 0.0
    """When it began, in seconds since the epoch."""
    state: str
    """`complete`, `incomplete`, `stopped` (too many failures), or `unreadable`."""
    rollouts: int = 0
    """Rollouts that are stored."""
    planned: int = 0
    """Planned number of rollouts; 0 in a training, where it is not known."""
    scored: int = 0
    steps: int | None = None
    """Steps that a training has done."""
    planned_steps: int | None = None
    score: float | None = None
    """Mean score; of a training, the last held-out score. None if nothing was scored."""
    pass_rate: float | None = None
    """Share of scored rollouts with full marks; of a training, of the last held-out evaluation."""
    score_low: float | None = None
    score_high: float | None = None
    """95 % interval of the score, over tasks."""
    failed: dict[str, int] = {}
    """Rollouts that failed, by side; sides without any are left out."""
    usd: float = 0.0
    """Cost of the stored rollouts."""
    stopped: str | None = None
    """Why its last sitting ended before everything planned was done; None if it did not."""
    problem: str | None = None
    """Why it cannot be read."""


class TaskScores(msgspec.Struct, frozen=True, kw_only=True):
    """The rollouts of one task, in numbers."""

    task: str
    split: str
    rollouts: int
    scored: int
    passed: int
    """Scored rollouts with full marks."""
    score: float | None
    """Mean over scored rollouts; None if there are none."""


class _Recipe(StoredModels, kw_only=True):
    steps: int


class _Line(msgspec.Struct):
    """A line of a training's progress; fields that its kind of line does not have keep their defaults."""

    kind: str = msgspec.field(name="is")
    version: int = 0
    mean: float | None = None
    low: float | None = None
    high: float | None = None
    passed: float | None = None


def list_runs(folder: Path) -> list[CatalogEntry]:
    """Every run directly below a folder, oldest first. A run that cannot be read has an entry that says why."""
    entries = [catalog_entry(path.parent) for path in folder.glob("*/manifest.json")]
    return sorted(entries, key=lambda entry: (entry.created, entry.run))


def catalog_entry(path: Path) -> CatalogEntry:
    """The entry of one run directory."""
    try:
        run = Run(path)
        if run.is_training:
            return _training(run)
        table = run.reader.table(["task", "score", "passed", "side", "usd"])
        scores = [score for score in table.column("score").to_pylist() if score is not None]
        num_passed = sum(passed is True for passed in table.column("passed").to_pylist())
        interval = _interval(table)
        sittings = run.sittings
        return CatalogEntry(
            run=str(path),
            environment=run.manifest.environment,
            source=run.manifest.source,
            model=run.manifest.config.model.spec,
            created=run.manifest.created,
            state=run.verdict,
            rollouts=len(run),
            planned=run.manifest.num_rollouts,
            scored=len(scores),
            score=sum(scores) / len(scores) if scores else None,
            pass_rate=num_passed / len(scores) if scores else None,
            score_low=interval.low if scores else None,
            score_high=interval.high if scores else None,
            failed=dict(Counter(side for side in table.column("side").to_pylist() if side is not None).most_common()),
            usd=sum(table.column("usd").to_pylist()),
            stopped=sittings[-1].stopped if sittings and not run.finished else None,
        )
    except (SandlotError, msgspec.MsgspecError, OSError, RecursionError) as error:
        return CatalogEntry(run=str(path), state="unreadable", problem=str(error))


def _training(run: Run) -> CatalogEntry:
    recipe = msgspec.json.decode((run.path / RECIPE).read_bytes(), type=_Recipe)
    lines = list(_progress(run.path))
    steps = max((line.version for line in lines if line.kind == "step"), default=0)
    measured = next((line for line in reversed(lines) if line.kind == "evaluation"), None)
    sides = run.reader.table(["side"]).column("side").to_pylist()
    return CatalogEntry(
        run=str(run.path),
        kind="training",
        environment=run.manifest.environment,
        source=run.manifest.source,
        model=recipe.names(run),
        created=run.manifest.created,
        state="complete" if steps >= recipe.steps else "stopped" if run.verdict == "stopped" else "incomplete",
        rollouts=len(run),
        steps=steps,
        planned_steps=recipe.steps,
        score=measured.mean if measured else None,
        pass_rate=measured.passed if measured else None,
        score_low=measured.low if measured else None,
        score_high=measured.high if measured else None,
        failed=dict(Counter(side for side in sides if side is not None).most_common()),
        usd=sum(run.reader.table(["usd"]).column("usd").to_pylist()),
    )


def _interval(table: Table) -> Interval:
    """The interval of the mean score over tasks, as in a summary."""
    tasks = table.column("task").combine_chunks().dictionary_encode().indices.to_numpy()
    scores = table.column("score").to_numpy().astype("f8")
    known = scores == scores  # noqa: PLR0124 - not a number is a rollout without a score
    counts, totals = bincount(tasks[known]), bincount(tasks[known], weights=scores[known])
    bounds = (min(0.0, scores[known].min()), max(1.0, scores[known].max())) if known.any() else (0.0, 1.0)
    return clustered_mean([Sums(int(n), float(total)) for n, total in zip(counts, totals, strict=True)], bounds=bounds)


def _progress(path: Path) -> Iterator[_Line]:
    file = path / _PROGRESS
    for line in file.read_bytes().splitlines(keepends=True) if file.is_file() else ():
        if line.endswith(b"\n"):  # an incomplete last line is still being written
            yield msgspec.json.decode(line, type=_Line)


def scores_by_task(run: Run) -> list[TaskScores]:
    """One line per task, in the order the tasks were first stored."""
    table = run.reader.table(["task", "split", "score", "passed"])
    sums: dict[str, list[float]] = {}
    splits: dict[str, str] = {}
    columns = (table.column(name).to_pylist() for name in table.column_names)
    for task, split, score, passed in zip(*columns, strict=True):
        counts = sums.setdefault(task, [0, 0, 0, 0.0])
        splits[task] = split
        counts[0] += 1
        if score is not None:
            counts[1] += 1
            counts[2] += passed is True
            counts[3] += score
    return [
        TaskScores(
            task=task,
            split=splits[task],
            rollouts=int(rollouts),
            scored=int(scored),
            passed=int(passed),
            score=total / scored if scored else None,
        )
        for task, (rollouts, scored, passed, total) in sums.items()
    ]
