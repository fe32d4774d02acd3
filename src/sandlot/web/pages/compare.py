"""Runs side by side, paired by task: what changed, how sure that is, and which tasks flipped."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sandlot.core.errors import ConfigError
from sandlot.core.stats.intervals import Interval
from sandlot.core.text import printable
from sandlot.run.catalog import CatalogEntry, TaskScores, catalog_entry, scores_by_task
from sandlot.run.compare import RunComparison
from sandlot.run.results import Run
from sandlot.web.charts import Chart, Series
from sandlot.web.site import Asked

_MOST_RUNS = 8
_TASKS = 200
"""Tasks on one page."""
_HALF = 0.5
SHOWN = ("changed", "flipped", "better", "worse", "all")
"""Which tasks can be asked for with `show`."""


@dataclass(frozen=True, slots=True)
class _Side:
    """One of the runs."""

    name: str
    """As in its address; of a training, that of its last evaluation."""
    asked: str
    run: Run
    entry: CatalogEntry
    tasks: dict[str, TaskScores]


def compare_page(asked: Asked) -> dict[str, Any]:
    """The runs that are asked for with `run`; each is compared with the first."""
    names = list(dict.fromkeys(asked.query.getlist("run")))
    if not 1 < len(names) <= _MOST_RUNS:
        raise ConfigError(f"{len(names)} runs are asked for; pick 2 to {_MOST_RUNS} runs in the list")
    sides = [_side(asked, name) for name in names]
    first, others = sides[0], sides[1:]
    pairs = [(side, _compare(asked, first, side)) for side in others]
    show = asked.query.get("show", "")
    show = show if show in SHOWN else SHOWN[0]
    words = asked.query.get("task", "").lower()
    rows = [row for row in _rows(first, pairs, show) if words in row["task"].lower()]
    start = min(asked.number("from"), max(0, len(rows) - 1) // _TASKS * _TASKS)
    return {
        "title": "compare",
        "names": names,
        "sides": sides,
        "pairs": [_pair(side, compared) for side, compared in pairs],
        "chart": _chart(sides),
        "change": _change_chart(pairs),
        "show": show,
        "shown": SHOWN,
        "words": asked.query.get("task", ""),
        "rows": rows[start : start + _TASKS],
        "start": start,
        "num_rows": len(rows),
        "next": start + _TASKS if start + _TASKS < len(rows) else None,
        "previous": max(0, start - _TASKS) if start else None,
    }


def _side(asked: Asked, name: str) -> _Side:
    path = asked.find_run(name)
    run = Run(path)
    measured = run.measured()
    place = name if measured is run else f"{name}@{measured.path.name}"
    memory = asked.site.memory
    entry = memory.recall(measured.path, "entry", lambda: catalog_entry(measured.path))
    tasks = memory.recall(measured.path, "scores", lambda: {each.task: each for each in scores_by_task(measured)})
    return _Side(place, name, measured, entry, tasks)


def _compare(asked: Asked, first: _Side, second: _Side) -> RunComparison:
    what = f"against {first.run.path} {len(first.run)}"
    return asked.site.memory.recall(second.run.path, what, lambda: first.run.compare(second.run, despite_setting=True))


def _pair(side: _Side, compared: RunComparison) -> dict[str, Any]:
    """One run against the first."""
    found = compared.score.value is not None
    return {
        "name": side.asked,
        "compared": compared,
        "score": _signed(compared.score) if found else None,
        "pass_rate": _signed(compared.pass_rate) if found else None,
        "colour": _colour(compared.score),
        "note": printable(compared.note, 400),
    }


def _signed(interval: Interval) -> str:
    return f"{interval.value:+.3f} ({interval.low:+.3f} to {interval.high:+.3f})"


def _colour(interval: Interval) -> str:
    """The class of a change: none if its interval contains 0."""
    if interval.value is None or interval.low <= 0 <= interval.high:
        return ""
    return "up" if interval.value > 0 else "down"


def _rows(first: _Side, pairs: list[tuple[_Side, RunComparison]], show: str) -> list[dict[str, Any]]:
    """One row per task that is scored in the first run and another, largest change first."""
    moves: dict[str, list[float | None]] = {}
    for number, (_, compared) in enumerate(pairs):
        for change in (*compared.improved, *compared.regressed):
            moves.setdefault(change.task, [None] * len(pairs))[number] = change.difference
    if show == "all":
        for task in first.tasks:
            moves.setdefault(task, [None] * len(pairs))
    sides = [first, *(side for side, _ in pairs)]
    rows = [
        {
            "task": task,
            "scores": [side.tasks.get(task) for side in sides],
            "moves": changed,
            "flips": _flips([side.tasks.get(task) for side in sides]),
        }
        for task, changed in moves.items()
    ]
    return sorted((row for row in rows if _is_shown(row, show)), key=lambda row: -max(abs(move or 0) for move in row["moves"]))


def _is_shown(row: dict[str, Any], show: str) -> bool:
    moves: list[float] = [move or 0.0 for move in row["moves"]]
    return {"flipped": any(row["flips"]), "better": max(moves) > 0, "worse": min(moves) < 0}.get(show, True)


def _flips(scores: list[TaskScores | None]) -> list[str]:
    """Of each run but the first, whether the task is solved now and was not, or the reverse. Solved is half of the rollouts."""
    solved = [None if each is None or not each.scored else each.passed / each.scored >= _HALF for each in scores]
    before = solved[0]
    return ["" if before is None or now is None or now == before else "solved" if now else "lost" for now in solved[1:]]


def _chart(sides: list[_Side]) -> Chart:
    entries = [side.entry for side in sides]
    return Chart(
        title="Score",
        note="Mean score of each run, with its 95 % interval over tasks.",
        kind="bars",
        labels=[printable(side.asked, 40) for side in sides],
        range=(0, 1) if all(entry.score is None or 0 <= entry.score <= 1 for entry in entries) else None,
        series=[
            Series(
                name="score",
                points=[(number, entry.score) for number, entry in enumerate(entries)],
                band=[(entry.score_low, entry.score_high) for entry in entries],
            )
        ],
    )


def _change_chart(pairs: list[tuple[_Side, RunComparison]]) -> Chart:
    return Chart(
        title="Change against the first run",
        note="Paired by task and rollout. An interval that contains 0 is no clear change.",
        kind="bars",
        labels=[printable(side.asked, 40) for side, _ in pairs],
        series=[
            _changes("score", [compared.score for _, compared in pairs]),
            _changes("full marks", [compared.pass_rate for _, compared in pairs]),
        ],
    )


def _changes(name: str, found: Sequence[Interval]) -> Series:
    return Series(
        name=name,
        points=[(number, interval.value) for number, interval in enumerate(found)],
        band=[(interval.low, interval.high) if interval.value is not None else (None, None) for interval in found],
    )
