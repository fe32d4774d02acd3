"""An audit on the screen: progress, findings, and how to fix and reproduce them."""

import sys
from pathlib import Path

import msgspec
from rich.console import Console
from rich.markup import escape

from sandlot.audit.audit import ALL_PROBES
from sandlot.audit.finding import Confidence, Finding, Layer, Severity
from sandlot.audit.reports.folder import as_json, folder_of
from sandlot.audit.reports.wording import (
    WHAT_LAYERS_DO,
    coverage_lines,
    defect_name,
    fix_of,
    layer_line,
    reproduce_command,
    verdict_sentence,
    witness_parts,
)
from sandlot.audit.verdict import Audit, AuditVerdict, State
from sandlot.cli.options import print_json
from sandlot.core.text import one_line
from sandlot.observe.events import ProbeBegan, ProbeEnded, RunEvent

_STYLES = {AuditVerdict.SHIP: "bold green", AuditVerdict.FIX: "bold red", AuditVerdict.INCOMPLETE: "bold yellow"}
_SEVERITIES = {Severity.BLOCKER: "red", Severity.HIGH: "red", Severity.LOW: "yellow", Severity.INFO: "dim"}
_MARKS = {
    State.RAN: "[green]ran[/]",
    State.COULD_NOT_RUN: "[red]could not run[/]",
    State.NOT_REACHED: "[yellow]not reached[/]",
}
_SHOWN = 12
"""Maximum number of leads on the screen; the reports have all."""
_LONGEST = 300


class Progress:
    """One line per probe on stderr; a terminal shows the running probe too."""

    def __init__(self, *, quiet: bool = False) -> None:
        self._console = Console(stderr=True, highlight=False, soft_wrap=True, quiet=quiet)

    def receive(self, event: RunEvent) -> None:
        """Show that a probe has started, or how it ended; a sink."""
        if isinstance(event, ProbeBegan) and sys.stderr.isatty():
            self._console.print(f"[dim]{event.layer:>13}  {event.probe} ...[/]", end="\r")
        elif isinstance(event, ProbeEnded):
            found = f"[yellow]{event.num_findings} found[/]" if event.num_findings else "nothing"
            found += f"  [dim]{escape(event.why)}[/]" if event.why else ""
            words = {
                State.RAN: found,
                State.NOT_REACHED: f"[yellow]not reached[/]  [dim]{escape(event.why)}[/]",
                State.DOES_NOT_APPLY: f"[dim]not applicable: {escape(event.why)}[/]",
            }
            said = words.get(State(event.state), f"[red]could not run: {escape(event.why)}[/]")
            said += "  [dim]finished earlier, not run again[/]" if event.earlier else ""
            self._console.print(f"[dim]{event.layer:>13}[/]  {event.probe}  {said}  [dim]{event.seconds:.1f} s[/]")


def print_probes(*, json: bool) -> None:
    """The probes of every layer, with the defects they can find."""
    if json:
        print_json([{"name": probe.name, "layer": probe.layer, "codes": probe.codes} for probe in ALL_PROBES])
        return
    console = Console(highlight=False, soft_wrap=True)
    for layer in Layer:
        mine = [probe for probe in ALL_PROBES if probe.layer is layer]
        if mine:
            console.print(f"[bold]{layer}[/]  [dim]{WHAT_LAYERS_DO[layer]}[/]")
        for probe in mine:
            console.print(f"  {probe.name:<28} [dim]{', '.join(probe.codes)}[/]")


def print_audit(audit: Audit, runs: Path | None, *, json: bool) -> None:
    """Print an audit to stdout; its reports are below `runs`, if they were kept."""
    folder = folder_of(audit.name, audit.place, runs) if runs is not None else None
    if json:
        print_json(msgspec.json.decode(as_json(audit)))
        return
    console = Console(highlight=False, soft_wrap=True)
    style = _STYLES[audit.verdict]
    console.print(f"\n[bold]{escape(audit.name)}[/]: [{style}]{audit.verdict.value}[/]  {escape(verdict_sentence(audit))}")
    facts = f"{audit.tasks} of {audit.of_tasks} tasks, {audit.trials:,} trials, {audit.seconds:.0f} s"
    console.print(f"[dim]{facts}, fingerprint {audit.fingerprint.removeprefix('sha256:')[:12]}, seed {audit.seed}[/]")
    for line in coverage_lines(audit):
        console.print(f"{escape(line)}")
    console.print()
    for report in audit.layers:
        mark = {
            State.RAN: "[green]ran[/]",
            State.COULD_NOT_RUN: "[red]could not run[/]",
            State.NOT_REACHED: "[yellow]not reached[/]",
        }.get(report.state, f"[dim]{report.state}[/]")
        line = layer_line(report)
        console.print(f"{report.layer:>13}  {mark}" + (f"  [dim]{escape(line)}[/]" if line != report.state else ""))
    confirmed = [finding for finding in audit.findings if finding.standing is Confidence.CONFIRMED]
    leads = [finding for finding in audit.findings if finding.standing is Confidence.LEAD]
    for finding in confirmed:
        _print_finding(console, audit, finding)
    if leads:
        shown = f", the first {_SHOWN} of them" if len(leads) > _SHOWN else ""
        console.print(f"\n[bold]{len(leads)} unconfirmed {'lead' if len(leads) == 1 else 'leads'}[/]{shown}")
    for finding in leads[:_SHOWN]:
        place = finding.where or finding.task or finding.check or ""
        console.print(
            f"  [{_SEVERITIES[finding.severity]}]{finding.code}[/]  {escape(_short(finding.title))}  [dim]{escape(place)}[/]"
        )
    for each in audit.waived:
        said = f"{each.waiver.reason} ({each.waiver.owner}, until {each.waiver.expires})"
        console.print(f"[dim]waived  {escape(each.finding.id)}: {escape(_short(said))}[/]")
    for waiver in audit.expired:
        console.print(f"[yellow]waiver of {escape(waiver.finding)} expired on {waiver.expires} and no longer counts[/]")
    if folder is not None:
        console.print(f"\n[dim]report:[/] {folder / 'report.html'}   [dim]also report.md, audit.json[/]")


def _print_finding(console: Console, audit: Audit, finding: Finding) -> None:
    style = _SEVERITIES[finding.severity]
    times = f" ({finding.count} times)" if finding.count > 1 else ""
    title = escape(_short(finding.title))
    console.print(f"\n[{style}]{finding.code}[/] [bold]{title}[/]  [dim]{defect_name(finding)}, {finding.severity}{times}[/]")
    for name, value in witness_parts(finding):
        console.print(f"  [dim]{escape(name):>10}[/]  {escape(_short(value))}")
    console.print(f"  [dim]       fix[/]  {escape(fix_of(finding))}")
    console.print(f"  [dim] reproduce[/]  {escape(reproduce_command(audit, finding))}")


def _short(text: str) -> str:
    """One safe line of limited length, whatever a subject wrote."""
    line = one_line(text)
    return line if len(line) <= _LONGEST else line[: _LONGEST - 1] + "…"
