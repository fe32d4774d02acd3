"""The main parts of a run's page as the HTML of one notebook cell: no script, no style sheet, nothing loaded.

Everything that agents, tools and environments wrote is escaped.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from html import escape

from sandlot.core.text import printable
from sandlot.core.trace_row import TraceRow
from sandlot.observe.live import ToolTimes
from sandlot.run.notebook import headline
from sandlot.run.summary import Summary

MAX_TASKS, MAX_ROLLOUTS = 50, 64
"""Tasks, and rollouts of each, that are drawn; the others are counted."""
_EXAMPLES = 3
_SIDE = 12
"""Size of a square, in pixels."""
_MAX_CHARS = 120
_FAILED, _NONE = "#b3261e", "#9aa0a6"


@dataclass(frozen=True, slots=True)
class RunHtml:
    """What `run.show()` returns: a notebook draws it, and `print` writes one line."""

    name: str
    said: str
    html: str

    def __repr__(self) -> str:
        return f"<{printable(self.name)}: {self.said}>"

    def _repr_html_(self) -> str:
        return self.html


def page_of(name: str, summary: Summary, rows: Iterable[TraceRow], tools: Iterable[ToolTimes] = ()) -> RunHtml:
    """The page of a run; rows may come in any order and number."""
    tasks: defaultdict[str, list[TraceRow]] = defaultdict(list)
    failed: defaultdict[str, list[TraceRow]] = defaultdict(list)
    for row in rows:
        tasks[row.task].append(row)
        if row.side is not None and len(failed[f"{row.side}/{row.kind or '?'}"]) < _EXAMPLES:
            failed[f"{row.side}/{row.kind or '?'}"].append(row)
    said = headline(summary)
    parts = [f"<p><b>{_text(name)}</b>: {_text(said, 400)}</p>"]
    if summary.scored:
        parts += ["<p>Scores</p>", _histogram(summary)]
    if len(summary.pass_at) > 1:
        cells = [(f"pass@{each.k}", f"{each.share.value or 0:.1%}") for each in summary.pass_at]
        parts.append(_table((), cells))
    if summary.phases:
        cells = [(phase, f"{each.share:.0%}") for phase, each in summary.phases.items() if each.share >= 0.005]
        parts += ["<p>Time by phase</p>", _table((), cells)]
    slow = [
        (each.name, f"{each.calls:,}", f"{each.errors:,}", f"{each.seconds:.1f} s", f"{each.longest:.2f} s") for each in tools
    ]
    if slow:
        parts += ["<p>Slowest tools</p>", _table(("tool", "calls", "errors", "in all", "longest"), slow)]
    if summary.kinds:
        lines = [(kind, f"{count:,}", _examples(failed[kind])) for kind, count in summary.kinds.items()]
        parts += ["<p>Failures by side</p>", _table(("side/kind", "rollouts", "examples"), lines)]
    parts += ["<p>Tasks by rollouts</p>", _grid(tasks)]
    return RunHtml(name, said, "".join(parts))


def _examples(rows: list[TraceRow]) -> str:
    return "; ".join(f"{row.task}/{row.rollout}: {row.message or ''}"[:_MAX_CHARS] for row in rows)


def _histogram(summary: Summary) -> str:
    most, wide, high = max(summary.histogram) or 1, 24, 60
    bars = "".join(
        f'<rect x="{place * wide}" y="{high - count / most * high:.1f}" width="{wide - 2}" height="{count / most * high:.1f}" '
        f'fill="#3b73c4"><title>{place / 10:g} to {(place + 1) / 10:g}: {count:,} rollouts</title></rect>'
        for place, count in enumerate(summary.histogram)
    )
    width = wide * len(summary.histogram)
    return f'<svg width="{width}" height="{high}" viewBox="0 0 {width} {high}" role="img" aria-label="scores">{bars}</svg>'


def _table(header: Iterable[str], rows: Iterable[tuple[str, ...]]) -> str:
    head = "".join(f"<th>{_text(cell)}</th>" for cell in header)
    body = "".join(f"<tr>{''.join(f'<td>{_text(cell, 400)}</td>' for cell in row)}</tr>" for row in rows)
    return f"<table>{f'<tr>{head}</tr>' if head else ''}{body}</table>"


def _grid(tasks: dict[str, list[TraceRow]]) -> str:
    """A row for each task, and a square for each of its rollouts: white to green by score, red if it failed."""
    lines = "".join(
        f"<tr><th>{_text(task)}</th><td>{_squares(rows)}</td><td>{_mean(rows)}</td></tr>"
        for task, rows in sorted(tasks.items())[:MAX_TASKS]
    )
    more = f"<p>and {len(tasks) - MAX_TASKS:,} more tasks</p>" if len(tasks) > MAX_TASKS else ""
    return f"<table><tr><th>task</th><th>rollouts</th><th>score</th></tr>{lines}</table>{more}"


def _squares(rows: list[TraceRow]) -> str:
    ordered = sorted(rows, key=lambda row: row.rollout)
    drawn = "".join(_square(place, row) for place, row in enumerate(ordered[:MAX_ROLLOUTS]))
    width = _SIDE * min(len(rows), MAX_ROLLOUTS)
    more = f" and {len(rows) - MAX_ROLLOUTS:,} more" if len(rows) > MAX_ROLLOUTS else ""
    return f'<svg width="{width}" height="{_SIDE}" role="img" aria-label="{len(rows)} rollouts">{drawn}</svg>{more}'


def _square(place: int, row: TraceRow) -> str:
    if row.score is not None:
        light = 92 - 55 * min(1.0, max(0.0, row.score))
        colour, said = f"hsl(140,45%,{light:.0f}%)", f"{row.score:.3f}"
    else:
        colour, said = (_FAILED, f"failed: {row.side}") if row.side else (_NONE, row.outcome)
    return (
        f'<rect x="{place * _SIDE}" y="0" width="{_SIDE - 2}" height="{_SIDE - 2}" fill="{colour}" stroke="{_NONE}">'
        f"<title>{_text(f'rollout {row.rollout}: {said}')}</title></rect>"
    )


def _mean(rows: list[TraceRow]) -> str:
    scores = list(_scores(rows))
    return f"{sum(scores) / len(scores):.3f}" if scores else "-"


def _scores(rows: list[TraceRow]) -> Iterator[float]:
    return (row.score for row in rows if row.score is not None)


def _text(text: str, most: int = _MAX_CHARS) -> str:
    return escape(printable(text if len(text) <= most else f"{text[:most]}..."))
