"""What each page shows, read from stored runs. Text is cleaned here, and escaped by the templates."""

import shlex
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import msgspec

from sandlot.core.errors import ConfigError
from sandlot.core.rubric import CheckResult
from sandlot.core.text import printable
from sandlot.core.trace import Failed, Message, Node, Reasoning, Scored, Text, ToolCall, ToolResult, Trace, TraceRow
from sandlot.run.catalog import list_runs
from sandlot.run.results import Run
from sandlot.store.layout import lock_file

_TASKS = 200
"""Tasks on one page of a run."""
_CUT = 4_000
"""Characters of one message that are shown at first."""
_MESSAGES = 400
"""Messages of a trace that are shown at first: the first and last halves of these."""
_EXAMPLES = 3


def find_run_path(folder: Path, name: str) -> Path:
    """The directory of a run by its name, which may be anything: only names that are in the folder are used as paths."""
    if name not in {path.name for path in folder.iterdir()} or not (folder / name / "manifest.json").is_file():
        raise ConfigError(f"no run `{name[:200]}` in `{folder}`")
    return folder / name


def list_page(folder: Path) -> dict[str, Any]:
    """All runs of a folder, newest first."""
    now = time.time()
    rows = [
        {"entry": entry, "name": Path(entry.run).name, "live": is_live(Path(entry.run)), "age": _age(now - entry.created)}
        for entry in reversed(list_runs(folder))
    ]
    return {"title": "runs", "folder": str(folder.resolve()), "rows": rows}


class RunState(msgspec.Struct, frozen=True):
    """The numbers that change while a run goes on."""

    live: bool
    rollouts: int
    failed: int
    score: float | None

    def encoded(self) -> bytes:
        """As JSON."""
        return msgspec.json.encode(self)


def is_live(path: Path) -> bool:
    """True if a process is writing the run now: it holds the lock. Trying to lock it could stop a run from starting."""
    try:
        place = Path(lock_file(path)).stat()
        locks = Path("/proc/locks").read_text().splitlines()
    except OSError:
        return False
    wanted = f":{place.st_ino}"
    return any("FLOCK" in line and wanted in {word[word.rfind(":") :] for word in line.split()} for line in locks)


def run_state(path: Path) -> RunState:
    """How far a run is."""
    live, run = is_live(path), Run(path)
    outcomes = run.reader.table(["outcome", "score"])
    scores = [score for score in outcomes.column("score").to_pylist() if score is not None]
    failed = sum(outcome == "failed" for outcome in outcomes.column("outcome").to_pylist())
    return RunState(live, len(run), failed, sum(scores) / len(scores) if scores else None)


# -- a run -----------------------------------------------------------------------------------------------------


def run_page(path: Path, start: int) -> dict[str, Any]:
    """A run: its summary, its failures, and the grid of tasks and rollouts from task number `start` on."""
    run = Run(path)
    summary = run.summary()
    rows: dict[str, list[TraceRow]] = {}
    for row in run.rows:
        rows.setdefault(row.task, []).append(row)
    names = list(rows)[start : start + _TASKS]
    failed = [row for each in rows.values() for row in each if row.outcome == "failed"]
    return {
        "title": path.name,
        "name": path.name,
        "live": is_live(path),
        "environment": run.manifest.environment,
        "model": run.manifest.config.model.shown,
        "training": run.is_training,
        "planned": run.planned,
        "summary": summary,
        "grid": [(name, [_cell(row) for row in sorted(rows[name], key=lambda row: row.rollout)]) for name in names],
        "start": start,
        "next": start + _TASKS if start + _TASKS < len(rows) else None,
        "previous": max(0, start - _TASKS) if start else None,
        "num_tasks": len(rows),
        "bars": _bars(summary.histogram),
        "failures": [
            (kind, count, [row for row in failed if f"{row.side}/{row.kind}" == kind][:_EXAMPLES])
            for kind, count in summary.kinds.items()
        ],
    }


def _cell(row: TraceRow) -> dict[str, Any]:
    """One rollout in a grid: a class for its colour, and what is read on it."""
    level = "failed" if row.score is None else f"s{min(9, max(0, int(row.score * 10)))}"
    says = f"{row.side}/{row.kind}" if row.score is None else f"score {row.score:.3f}"
    return {
        "rollout": row.rollout,
        "level": level,
        "says": f"rollout {row.rollout}: {says}, {row.turns} turns, {row.seconds:.1f} s",
    }


def _bars(counts: Iterable[int]) -> list[dict[str, Any]]:
    """A histogram as rectangles in a box of 100 by 40."""
    counts = list(counts)
    most = max([*counts, 1])
    return [
        {"x": 10 * number, "height": 38 * count / most, "y": 40 - 38 * count / most, "count": count, "number": number}
        for number, count in enumerate(counts)
    ]


# -- a group ---------------------------------------------------------------------------------------------------


def group_page(path: Path, task: str) -> dict[str, Any]:
    """The rollouts of one task, side by side."""
    reader = Run(path).reader
    keys = [(row.task, row.rollout) for row in reader.task_rows(task)]
    traces = sorted(reader.traces_of(keys), key=lambda trace: trace.rollout)
    scores = [trace.outcome.score.value for trace in traces if isinstance(trace.outcome, Scored)]
    mean = sum(scores) / len(scores) if scores else None
    checks: dict[str, list[CheckResult | None]] = {}
    for number, trace in enumerate(traces):
        for check in trace.outcome.score.checks if isinstance(trace.outcome, Scored) else ():
            checks.setdefault(check.id, [None] * len(traces))[number] = check
    return {
        "title": f"{path.name} / {task}",
        "name": path.name,
        "task": task,
        "mean": mean,
        "attempts": [_attempt(trace, mean) for trace in traces],
        "checks": list(checks.items()),
    }


def _attempt(trace: Trace, mean: float | None) -> dict[str, Any]:
    score = trace.outcome.score.value if isinstance(trace.outcome, Scored) else None
    return {
        "rollout": trace.rollout,
        "score": score,
        "above": None if score is None or mean is None else score - mean,
        "problem": f"{trace.outcome.side}/{trace.outcome.kind}" if isinstance(trace.outcome, Failed) else None,
        "turns": sum(node.is_turn for node in trace.nodes),
        "end": str(trace.end or ""),
        "calls": [printable(part.name, 60) for node in trace.nodes for part in node.message.parts if isinstance(part, ToolCall)],
        "answer": printable(trace.answer, 600),
    }


# -- a trace ---------------------------------------------------------------------------------------------------


def trace_page(path: Path, task: str, rollout: int, *, whole: bool) -> dict[str, Any]:
    """One rollout: messages, checks, events, times. Long texts and the middle of a long trace are cut, unless `whole`."""
    trace = Run(path).trace(task, rollout)
    outcome, count = trace.outcome, len(trace.nodes)
    kept = [number for number in range(count) if whole or number < _MESSAGES // 2 or number >= count - _MESSAGES // 2]
    span = max([node.start_s + node.seconds for node in trace.nodes] + [1e-9])
    return {
        "title": f"{path.name} / {trace.task} / {trace.rollout}",
        "name": path.name,
        "task": trace.task,
        "rollout": trace.rollout,
        "seed": trace.seed,
        "score": outcome.score if isinstance(outcome, Scored) else None,
        "failed": outcome if isinstance(outcome, Failed) else None,
        "problem": printable(outcome.message, _CUT) if isinstance(outcome, Failed) else "",
        "end": str(trace.end or ""),
        "phases": sorted(trace.phases.items(), key=lambda phase: -phase[1]),
        "events": [(event.turn, event.kind, printable(str(event.detail), 400)) for event in trace.events],
        "left_out": count - len(kept),
        "messages": [_message(trace.nodes[number], number, span, whole=whole) for number in kept],
        "replay": shlex.join(("sandlot", "replay", f"{path.name}/{trace.task}/{trace.rollout}")),
    }


def _message(node: Node, number: int, span: float, *, whole: bool) -> dict[str, Any]:
    return {
        "number": number,
        "role": str(node.message.role),
        "sampled": node.sampled,
        "seconds": node.seconds,
        "left": 100 * node.start_s / span,
        "width": max(0.4, 100 * node.seconds / span),
        "tokens": node.num_tokens,
        "parts": [_cut(kind, label, text, whole=whole) for kind, label, text in _parts(node.message)],
    }


def _parts(message: Message) -> Iterator[tuple[str, str, str]]:
    """The kind, the heading and the text of each part."""
    for part in message.parts:
        match part:
            case Text():
                yield "text", "", part.text
            case Reasoning():
                yield "reasoning", "", part.text
            case ToolCall():
                arguments = part.malformed or msgspec.json.format(msgspec.json.encode(part.arguments), indent=2).decode()
                yield "call", printable(part.name, 200), arguments
            case ToolResult():
                yield ("error", "error", part.text) if part.error else ("result", "result", part.text)
            case _:
                yield "artifact", type(part).__name__, part.artifact


def _cut(kind: str, label: str, text: str, *, whole: bool) -> dict[str, Any]:
    more = 0 if whole else max(0, len(text) - _CUT)
    return {"kind": kind, "label": label, "text": printable(text, _CUT if more else None), "more": more}


def _age(seconds: float) -> str:
    for size, unit in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= size:
            return f"{seconds / size:.0f} {unit}"
    return f"{max(0, seconds):.0f} s"
