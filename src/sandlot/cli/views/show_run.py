"""What `show` prints of a run and of the attempts at one task. Text that others wrote is made printable."""

from collections import Counter
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import msgspec
from rich.console import Console
from rich.markup import escape

from sandlot.cli.options import print_json
from sandlot.cli.views.columns import print_columns
from sandlot.cli.views.summary import clean, end_text, print_notable, print_numbers
from sandlot.core.text import one_line
from sandlot.core.trace import Scored, Trace
from sandlot.core.trace_row import TraceRow
from sandlot.run.catalog import TaskScores, catalog_entry, scores_by_task
from sandlot.run.results import Run

_FEW = 10
"""Tasks of a run that are shown unless all are wanted: the ones with the lowest scores."""
_MOST_READ = 64
"""Attempts at a task whose traces are opened, for answers and checks."""


def show_run(path: Path, *, json: bool, every: bool = False) -> None:
    """Its summary and a table of its tasks; of a training, what it has come to."""
    run = Run(path)
    if (path / "recipe.json").is_file():
        _show_training(path, json=json)
        return
    tasks = scores_by_task(run)
    if json:
        print_json(_summary_facts(run, tasks))
        return
    summary = run.summary()
    print_numbers(run, summary)
    _print_tasks(run, tasks, every=every)
    print_notable(run, summary)


def _show_training(path: Path, *, json: bool) -> None:
    if not json:
        from sandlot.cli.views.train import show_training  # noqa: PLC0415 - other runs do not need torch

        show_training(path)
        return
    ended = path / "summary.json"
    outcome = msgspec.json.decode(ended.read_bytes()) if ended.is_file() else None
    print_json({**msgspec.to_builtins(catalog_entry(path)), "outcome": outcome})


def _summary_facts(run: Run, tasks: Sequence[TaskScores]) -> dict[str, Any]:
    """The whole summary, what was run, and one entry per task."""
    manifest = run.manifest
    return msgspec.to_builtins(run.summary()) | {
        "environment": manifest.environment,
        "model": manifest.config.model.spec,
        "created": manifest.created,
        "planned": manifest.num_rollouts,
        "by_task": tasks,
    }


def _print_tasks(run: Run, tasks: Sequence[TaskScores], *, every: bool) -> None:
    if len(tasks) < 2:  # the summary has said it
        return
    lowest_first = sorted(tasks, key=lambda each: (each.score is not None, each.score or 0.0))
    shown = lowest_first if every else lowest_first[:_FEW]
    console = Console(highlight=False, soft_wrap=True)
    console.print("\n[dim]tasks, lowest score first[/]")
    print_columns(
        console, ("task", "split", "score", "full marks", "rollouts", "unscored"), [_task_cells(each) for each in shown]
    )
    if len(shown) < len(tasks):
        console.print(f"[dim]... and {len(tasks) - len(shown):,} more: sandlot show {escape(str(run.path))} --all[/]")
    console.print(f"[dim]all attempts at one task: sandlot show {escape(str(run.path))}/{escape(clean(shown[0].task))}[/]\n")


def _task_cells(each: TaskScores) -> tuple[str, ...]:
    unscored = each.rollouts - each.scored
    return (
        escape(clean(each.task)),
        escape(clean(each.split)),
        f"{each.score:.3f}" if each.score is not None else "-",
        f"{each.passed} of {each.scored}",
        str(each.rollouts),
        f"[red]{unscored}[/]" if unscored else "-",
    )


def print_traces(path: Path, task: str | None = None) -> None:
    """Every trace of a run or of one task, as JSON Lines."""
    run = Run(path)
    traces = run if task is None else (run.trace(task, row.rollout) for row in run.reader.task_rows(task))
    for trace in traces:
        print_json(trace)


def show_task(path: Path, task: str, *, json: bool) -> None:
    """Every attempt at a task: how it ended, what it scored, its answer; and which checks were met how often."""
    run = Run(path)
    rows = run.reader.task_rows(task)
    if json:
        print_json({"run": str(path), "task": task, "rollouts": rows})
        return
    traces = {row.rollout: run.trace(task, row.rollout) for row in islice(rows, _MOST_READ)}
    console = Console(highlight=False, soft_wrap=True)
    scored = [row.score for row in rows if row.score is not None]
    mean = f"mean score [bold]{sum(scored) / len(scored):.3f}[/], " if scored else ""
    console.print(f"[bold]{escape(clean(task))}[/] in {escape(str(path))}: {mean}{len(scored)} of {len(rows)} scored")
    cells = [_attempt_cells(row, traces.get(row.rollout)) for row in rows]
    print_columns(console, ("rollout", "outcome", "end", "turns", "seconds", "answer"), cells)
    _print_checks(console, list(traces.values()))
    console.print(f"one attempt: sandlot show {escape(str(path))}/{escape(clean(task))}/{rows[0].rollout}")


def _attempt_cells(row: TraceRow, trace: Trace | None) -> tuple[str, ...]:
    said = row.message if row.outcome == "failed" else trace.answer if trace else ""
    answer = escape(one_line(clean(said or ""), 70))
    return str(row.rollout), _outcome(row), end_text(row.end), str(row.turns), f"{row.seconds:.1f}", answer


def _outcome(row: TraceRow) -> str:
    if row.score is None:
        return f"[red]{row.outcome}: {escape(clean(f'{row.side}/{row.kind}'))}[/]" if row.side else f"[yellow]{row.outcome}[/]"
    points = f"  {row.points:g}/{row.possible:g}" if row.points is not None and row.possible is not None else ""
    return f"{row.score:.3f}[dim]{points}[/]"


def _print_checks(console: Console, traces: Sequence[Trace]) -> None:
    """Checks that were not always met, the rarest first."""
    verdicts: dict[str, Counter[str]] = {}
    for trace in traces:
        for check in trace.outcome.score.checks if isinstance(trace.outcome, Scored) else ():
            verdicts.setdefault(check.id, Counter())[check.verdict] += 1
    lost = {name: counts for name, counts in verdicts.items() if counts["met"] < counts.total()}
    if not lost:
        return
    rows = [
        (escape(clean(name)), str(counts["met"]), str(counts["not_met"]), str(counts.total() - counts["met"] - counts["not_met"]))
        for name, counts in sorted(lost.items(), key=lambda item: item[1]["met"])
    ]
    console.print()
    print_columns(console, ("check", "met", "not met", "other"), rows)
