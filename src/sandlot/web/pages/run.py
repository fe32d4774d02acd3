"""A run, live and after: its numbers, what it does now, its failures, and the grid of tasks and rollouts."""

from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import msgspec

from sandlot.calibrate.tasks.calibration import FILE as CALIBRATION
from sandlot.calibrate.tasks.calibration import Calibration
from sandlot.calibrate.tasks.placement import TaskLabel
from sandlot.core.text import one_line, printable
from sandlot.observe.event_log import EventReader
from sandlot.observe.live import LiveRun, ToolTimes
from sandlot.run.follow import RunState
from sandlot.run.results import Run
from sandlot.run.summary import Summary
from sandlot.store.lock import is_live
from sandlot.store.reader import RunReader
from sandlot.web.charts import Chart, Series
from sandlot.web.grid import OUTCOMES, TaskFilter, TaskIndex, find_tasks
from sandlot.web.site import Asked, link

_TASKS = 200
"""Tasks on one page of a run."""
_EXAMPLES = 3
_EVENT_BYTES = 16 * 2**20
"""The end of the event log that is read for the times of tools."""
_AUTOMATIC = 20_000
"""In larger runs, triage is started by the reader."""
_BINS = 10


def run_state(asked: Asked) -> RunState:
    """How far a run is."""
    return asked.site.followers.state_of(asked.run)


def run_page(asked: Asked) -> dict[str, Any]:
    """A run, with the tasks that the address asks for: `from`, `task`, `low`, `high`, `outcome`."""
    path = asked.run
    live = is_live(path)  # first: what is read of a run that has ended is all of it
    run, memory = asked.opened, asked.site.memory
    summary = memory.recall(path, "summary", run.summary)
    wanted = _filter(asked)
    index = memory.recall(path, "tasks", lambda: TaskIndex.read(run.reader))
    page = find_tasks(run.reader, index, wanted, asked.number("from"), _TASKS)
    sittings = run.sittings
    ended = page.start + _TASKS
    return {
        "title": asked.name or path.name,
        "name": path.name,
        "live": live,
        "environment": run.manifest.environment,
        "model": run.manifest.config.model.shown,
        "training": run.is_training,
        "trained": (asked.name or "").rpartition("@")[0] if path.parent != asked.site.folder else "",
        "planned": run.planned,
        "summary": summary,
        "sides": {side: count for side, count in summary.failed.items() if count},
        "stopped": one_line(sittings[-1].stopped or "", 500) if sittings and summary.verdict != "complete" else "",
        "lag_s": max((sitting.lag_p99_s for sitting in sittings), default=0.0),
        "blocked_by": [printable(each, 200) for sitting in sittings for each in sitting.blocked_by][:_EXAMPLES],
        "charts": list(_charts(summary)),
        "calibration": _calibration(asked, run),
        "tools": memory.recall(path, "tools", lambda: _tool_times(path)),
        "failures": memory.recall(path, "failures", lambda: _failures(run.reader, summary)),
        "automatic": summary.rollouts <= _AUTOMATIC,
        "grid": page.cells,
        "start": page.start,
        "num_matching": page.num_matching,
        "num_tasks": page.num_tasks,
        "wanted": wanted,
        "outcomes": OUTCOMES,
        "next": _address(asked, wanted, ended) if ended < page.num_matching else None,
        "previous": _address(asked, wanted, max(0, page.start - _TASKS)) if page.start else None,
    }


def _filter(asked: Asked) -> TaskFilter:
    outcome = asked.query.get("outcome", "")
    return TaskFilter(
        text=asked.query.get("task", "")[:200],
        low=_decimal(asked.query.get("low", "")),
        high=_decimal(asked.query.get("high", "")),
        outcome=outcome if outcome in OUTCOMES else "",
    )


def _decimal(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if abs(value) < 1e9 else None


def _address(asked: Asked, wanted: TaskFilter, start: int) -> str:
    fields = {"task": wanted.text, "low": wanted.low, "high": wanted.high, "outcome": wanted.outcome, "from": start}
    return link(asked.name or "", **{name: str(value) for name, value in fields.items() if value not in {None, ""}})


def _failures(reader: RunReader, summary: Summary) -> list[dict[str, Any]]:
    """Failures by side and kind, each with the first few."""
    if not summary.kinds:
        return []
    table = reader.table(["task", "rollout", "side", "kind", "message"])
    pc = import_module("pyarrow.compute")
    rows = table.filter(pc.is_valid(table.column("side")))
    found: list[dict[str, Any]] = []
    for name, count in summary.kinds.items():
        side, _, kind = name.partition("/")
        of_kind = pc.and_(pc.equal(rows.column("side"), side), pc.equal(pc.fill_null(rows.column("kind"), "?"), kind))
        examples = rows.filter(of_kind).slice(0, _EXAMPLES).to_pylist()
        shown = [(row["task"], row["rollout"], one_line(row["message"] or "", 160)) for row in examples]
        found.append({"side": side, "kind": printable(kind, 120), "count": count, "examples": shown})
    return found


def _tool_times(path: Path) -> tuple[ToolTimes, ...]:
    """The tools that took most time, as far as the event log says."""
    counted = LiveRun()
    for event in EventReader(path, last_bytes=_EVENT_BYTES):
        counted.receive(event)
    return counted.slowest_tools()


def _charts(summary: Summary) -> Iterator[Chart]:
    yield Chart(
        title="Scores",
        note=f"{summary.scored:,} scored rollouts.",
        kind="bars",
        x="score",
        labels=[f"{number / _BINS:g} to {(number + 1) / _BINS:g}" for number in range(_BINS)],
        series=[Series(name="rollouts", points=list(enumerate(summary.histogram)))],
    )
    if len(summary.pass_at) > 1:
        yield Chart(
            title="pass@k",
            note="Chance that at least one of k rollouts of a task gets full marks, with its 95 % interval.",
            x="k",
            range=(0, 1),
            percent=True,
            series=[
                Series(
                    name="pass@k",
                    points=[(each.k, each.share.value) for each in summary.pass_at],
                    band=[(each.share.low, each.share.high) for each in summary.pass_at],
                )
            ],
        )
    if summary.phases:
        yield Chart(
            title="Time by phase",
            note="Share of the time of all rollouts together.",
            kind="bars",
            percent=True,
            labels=[printable(name, 40) for name in summary.phases],
            series=[Series(name="share", points=[(number, phase.share) for number, phase in enumerate(summary.phases.values())])],
        )


def _calibration(asked: Asked, run: Run) -> dict[str, Any] | None:
    """The calibration of this run, or one of the same setting and model in the folder."""
    places = [run.path, *(file.parent for file in sorted(asked.site.folder.glob(f"*/{CALIBRATION}")))]
    for place in places:
        found = asked.site.memory.recall(place, "calibration", lambda place=place: _read_calibration(place))
        own = place == run.path
        if found is None or not (own or _is_same(found, run)):
            continue
        low, high = found.rule.low, found.rule.high
        return {
            "run": "" if own else place.name,
            "low": low,
            "high": high,
            "labels": {label.value.replace("_", " "): len(found.labelled(label)) for label in TaskLabel if found.labelled(label)},
            "informative": found.informative,
            "group": found.group,
            "chart": Chart(
                title="Difficulty",
                note=f"Tasks by expected pass rate; the band is {low:.0%} to {high:.0%}.",
                kind="bars",
                x="pass rate",
                labels=[f"{number * 10} %" for number in range(_BINS)],
                series=[Series(name="tasks", points=list(enumerate(found.histogram)))],
            ),
        }
    return None


def _read_calibration(place: Path) -> Calibration | None:
    try:
        return msgspec.json.decode((place / CALIBRATION).read_bytes(), type=Calibration)
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError):
        return None


def _is_same(found: Calibration, run: Run) -> bool:
    manifest = run.manifest
    return found.model == manifest.config.model.spec and found.fingerprints.setting == manifest.fingerprints.setting
