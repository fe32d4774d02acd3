"""A run as notebooks show it: a line with its result, and a table of its tasks. Names are escaped: they may be hostile."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from html import escape

from sandlot.core.text import printable
from sandlot.core.trace_row import TraceRow
from sandlot.run.summary import Summary

MAX_TASKS = 50
"""Tasks shown; the others are counted."""
_MAX_CHARS = 120
"""Characters shown of a name."""
_HEADERS = ("task", "split", "rollouts", "scored", "score", "full marks", "failed", "turns")


@dataclass(slots=True)
class _TaskLine:
    split: str = ""
    rollouts: int = 0
    scored: int = 0
    score: float = 0.0
    passed: int = 0
    failed: int = 0
    turns: int = 0

    def add(self, row: TraceRow) -> None:
        self.split = row.split
        self.rollouts += 1
        self.turns += row.turns
        self.failed += row.outcome == "failed"
        if row.score is not None:
            self.scored += 1
            self.score += row.score
            self.passed += bool(row.passed)

    def cells(self) -> list[str]:
        shares = (f"{self.score / self.scored:.3f}", f"{self.passed / self.scored:.0%}") if self.scored else ("-", "-")
        return [_text(self.split), str(self.rollouts), str(self.scored), *shares, str(self.failed), str(self.turns)]


def html_of(name: str, summary: Summary, rows: Iterable[TraceRow]) -> str:
    """The run as HTML without scripts, styles or links."""
    lines: dict[str, _TaskLine] = defaultdict(_TaskLine)
    for row in rows:
        lines[row.task].add(row)
    body = "".join(
        f"<tr><th>{_text(task)}</th>{''.join(f'<td>{cell}</td>' for cell in line.cells())}</tr>"
        for task, line in sorted(lines.items())[:MAX_TASKS]
    )
    more = f"<p>and {len(lines) - MAX_TASKS:,} more tasks</p>" if len(lines) > MAX_TASKS else ""
    head = "".join(f"<th>{header}</th>" for header in _HEADERS)
    return f"<p><b>{_text(name)}</b>: {_text(headline(summary), most=400)}</p><table><tr>{head}</tr>{body}</table>{more}"


def headline(summary: Summary) -> str:
    """The result of a run in one line of plain text."""
    failed = sum(summary.failed.values())
    pieces = [summary.verdict, f"{summary.rollouts:,} rollouts of {summary.tasks:,} tasks, {summary.scored:,} scored"]
    if summary.score.value is not None:
        pieces.append(f"score {summary.score.value:.3f} ({summary.score.low:.3f} to {summary.score.high:.3f} at 95 %)")
    if summary.pass_rate.value is not None:
        pieces.append(f"full marks {summary.pass_rate.value:.1%}")
    return "; ".join([*pieces, *([f"{failed:,} failed"] if failed else [])])


def _text(text: str, most: int = _MAX_CHARS) -> str:
    return escape(printable(text if len(text) <= most else f"{text[:most]}..."))
