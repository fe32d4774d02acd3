"""Reports about data on the screen."""

from pathlib import Path

from rich.console import Console
from rich.markup import escape

from sandlot.cli.views.columns import print_columns
from sandlot.core.text import one_line
from sandlot.interop.data.duplicates import DedupeReport
from sandlot.interop.data.redact import RedactionReport
from sandlot.interop.data.stats import DataStats
from sandlot.interop.data.validate import ValidationReport

_SHOWN = 20
"""Lines of a list; `--json` and `--report` have all."""
_LONGEST = 160


def _console() -> Console:
    return Console(highlight=False, soft_wrap=True)


def _text(text: str) -> str:
    return escape(one_line(text, _LONGEST))


def _print_rest(console: Console, number: int) -> None:
    if number > _SHOWN:
        console.print(f"[dim]and {number - _SHOWN:,} more; `--json` prints all[/]")


def print_redaction(report: RedactionReport, out: Path) -> None:
    """Kinds with their counts, then places."""
    console = _console()
    console.print(f"{report.rows:,} rows, {report.changed_rows:,} changed -> {escape(str(out))}")
    rows = [(kind, f"{count:,}", f"{report.values[kind]:,}") for kind, count in report.kinds.items()]
    if rows:
        print_columns(console, ("kind", "replaced", "different values"), rows)
        console.print()
        places = [
            (f"{_text(each.file)}:{each.line}", _text(each.field), each.kind, str(each.count)) for each in report.places[:_SHOWN]
        ]
        print_columns(console, ("row", "field", "kind", "replaced"), places)
        _print_rest(console, len(report.places) + report.places_left_out)


def print_duplicates(report: DedupeReport, out: Path | None) -> None:
    """Counts by kind, then the duplicates."""
    console = _console()
    said = ", ".join(f"{count:,} {kind}" for kind, count in report.kinds.items()) or "no duplicates"
    console.print(f"{report.rows:,} rows: {said}; {report.kept:,} remain" + (f" -> {escape(str(out))}" if out else ""))
    rows = [(_text(each.row), str(each.kind), f"{each.similarity:.2f}", _text(each.of)) for each in report.duplicates[:_SHOWN]]
    if rows:
        print_columns(console, ("row", "kind", "share", "of"), rows)
        _print_rest(console, len(report.duplicates))


def print_row_findings(report: ValidationReport) -> None:
    """The rows that do not fit."""
    console = _console()
    for each in report.findings[:_SHOWN]:
        console.print(f"{_text(each.row)}: {_text(each.message)}")
    _print_rest(console, len(report.findings))
    wrong = len({each.row for each in report.findings})
    console.print(f"{report.rows:,} rows, {wrong:,} with findings")


def print_stats(stats: DataStats) -> None:
    """Rows and files, then one line per field."""
    console = _console()
    files = f"{len(stats.files):,} file{'s' * (len(stats.files) != 1)}"
    console.print(f"{stats.rows:,} rows of {files}; {stats.repeated_rows:,} are the same as an earlier one")
    rows = [
        (
            _text(field.name),
            f"{field.present / stats.rows:.0%}" if stats.rows else "",
            ", ".join(f"{kind} {count:,}" for kind, count in field.types.items()),
            ("at least " if field.distinct_is_least else "") + f"{field.distinct:,}",
            " / ".join(f"{value:g}" for value in (field.low, field.median, field.high) if value is not None),
            "; ".join(f"{_text(text)} ({count:,})" for text, count in field.top),
        )
        for field in stats.fields
    ]
    print_columns(console, ("field", "filled", "types", "different", "size low/median/high", "most frequent"), rows)
