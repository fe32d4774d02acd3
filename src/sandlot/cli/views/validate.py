"""The report of RFC 008 on the screen."""

from pathlib import Path

import msgspec
from rich.console import Console
from rich.markup import escape

from sandlot.audit.standard.report import CheckStatus, StandardReport
from sandlot.core.errors import ConfigError
from sandlot.core.text import one_line

_STYLES = {CheckStatus.PASS: "green", CheckStatus.FAIL: "red", CheckStatus.SKIP: "dim", CheckStatus.ERROR: "red"}
_LONGEST = 160


def print_report(report: StandardReport) -> None:
    """One line per check id, and the verdict."""
    console = Console(highlight=False, soft_wrap=True)
    for result in report.results:
        style = _STYLES[result.status]
        weight = f" ({result.severity})" if result.status in {CheckStatus.FAIL, CheckStatus.ERROR} else ""
        evidence = one_line(" | ".join(result.evidence))
        shown = evidence if len(evidence) <= _LONGEST else evidence[: _LONGEST - 1] + "…"
        console.print(f"[{style}]{result.status:<5}[/] {result.check_id}{weight}  [dim]{escape(shown)}[/]")
        if result.remediation:
            console.print(f"      [dim]fix:[/] {escape(one_line(result.remediation))}")
    counts = ", ".join(
        f"{number} {status}" for status in CheckStatus if (number := sum(each.status is status for each in report.results))
    )
    console.print(f"\n[bold]{report.verdict.upper()}[/]  {counts}; policy {escape(one_line(report.policy_version))}")


def write_report(report: StandardReport, path: Path) -> None:
    """The report as JSON."""
    try:
        path.write_bytes(msgspec.json.format(msgspec.json.encode(report), indent=2) + b"\n")
    except OSError as error:
        raise ConfigError(f"report `{path}` cannot be written: {error.strerror}") from error
