"""An audit on the screen: progress, findings, and what to do about them."""

import re
import sys
from dataclasses import dataclass, replace
from pathlib import Path

import anyio
import msgspec
from rich.console import Console
from rich.markup import escape

from sandlot.audit.audit import ALL_PROBES, AuditSelection, Given, Watch
from sandlot.audit.audit import audit as run_audit
from sandlot.audit.case import Probe
from sandlot.audit.finding import MANDATORY, Confidence, Finding, Layer, Severity
from sandlot.audit.probes.played.rollouts import take_rollouts
from sandlot.audit.reports.folder import FOLDER, as_json, write_audit
from sandlot.audit.reports.formats import require_writable, write_report
from sandlot.audit.reports.html import as_page
from sandlot.audit.reports.markdown import as_markdown
from sandlot.audit.reports.wording import WHAT_LAYERS_DO, defect_name, fix_of, layer_line, reproduce_command, verdict_sentence
from sandlot.audit.subjects.named import NamedSubject, SubjectOptions, named
from sandlot.audit.verdict import Audit, AuditVerdict, ProbeReport, State
from sandlot.cli.options import print_json
from sandlot.core.errors import ConfigError
from sandlot.core.text import one_line

_STYLES = {AuditVerdict.SHIP: "bold green", AuditVerdict.FIX: "bold red", AuditVerdict.INCOMPLETE: "bold yellow"}
_SEVERITIES = {Severity.BLOCKER: "red", Severity.HIGH: "red", Severity.LOW: "yellow", Severity.INFO: "dim"}
_SHOWN = 12
"""Maximum number of leads on the screen; the reports have all."""
_LONGEST = 300


@dataclass(frozen=True, slots=True)
class AuditRequest:
    """An audit as the command line asks for it."""

    words: SubjectOptions
    """What is to be judged."""
    limit: int
    tasks: tuple[str, ...]
    layers: tuple[Layer, ...]
    probes: tuple[str, ...]
    seed: int
    judge: str | None
    user: str | None
    reference: Path | None
    manifest: Path | None
    model: str | None
    reviewed: Path | None
    waivers: Path | None
    reports: tuple[Path, ...]
    """Files to write, besides what is kept."""
    sandbox: str
    patience_s: float
    runs: Path


def audited(asked: AuditRequest, *, quiet: bool) -> tuple[Audit, Path | None]:
    """Run it, tell what goes on, and keep the reports; a part of an audit is shown and not kept."""
    if asked.limit < 1:
        raise ConfigError(f"--limit is {asked.limit}; give 1 or more")
    if asked.model is not None and asked.words.env is None:
        raise ConfigError("--model plays in environments of Sandlot; what others wrote has none")
    if asked.user is not None and asked.words.env is None:
        raise ConfigError("--user plays the user of a Sandlot environment; a grader or a Gymnasium environment has none")
    if asked.waivers is not None and not asked.waivers.is_file():
        raise ConfigError(f"no file `{asked.waivers}` with waivers")
    for file in asked.reports:
        require_writable(file)  # told before anything runs
    what = named(asked.words, judge=asked.judge, user=asked.user, sandbox=asked.sandbox, patience_s=asked.patience_s)
    whole = not (asked.tasks or asked.layers or asked.probes)
    given = Given(
        named=what.spoken,
        place=what.place,
        runs=asked.runs if whole else None,
        conditions=(asked.sandbox, f"{asked.patience_s:g}"),
        seed=asked.seed,
        most_tasks=asked.limit,
        tasks=asked.tasks,
        judge=asked.judge,
        user=asked.user,
        reference=asked.reference,
        manifest=asked.manifest,
        reviewed=asked.reviewed,
        declarations=asked.waivers or what.declarations,
        wanted=_wanted(asked),
    )
    try:
        result = anyio.run(_go, what, asked, given, _silent if quiet else Progress().note)
    except KeyboardInterrupt:
        if given.runs is not None:
            print("sandlot: stopped; finished probes are kept, and the same command continues", file=sys.stderr)
        raise
    folder = write_audit(result, asked.runs, report=as_markdown(result), page=as_page(result)) if whole else None
    for file in asked.reports:  # whatever becomes of them, the audit is kept
        write_report(result, file)
    return result, folder


def _wanted(asked: AuditRequest) -> AuditSelection:
    extra = [Layer.MODEL] * (asked.model is not None) + [Layer.PEOPLE] * (asked.reviewed is not None)
    layers = frozenset(asked.layers or (*MANDATORY, *extra))
    if asked.probes:
        layers = frozenset(probe.layer for probe in ALL_PROBES if probe.name in asked.probes) or layers
    return AuditSelection(layers=layers, probes=frozenset(asked.probes) or None)


async def _go(what: NamedSubject, asked: AuditRequest, given: Given, watch: Watch) -> Audit:
    async with what.opened() as subject:
        if asked.model is not None and asked.words.env is not None:
            fingerprint = (await subject.describe()).fingerprint
            player = f"{asked.model} {asked.user or ''}".strip()
            place = asked.runs / FOLDER / "rollouts" / _run_name(asked.words.env, player, fingerprint)
            taken = await take_rollouts(
                asked.words.env, asked.model, place, judge=asked.judge, user=asked.user, sandbox=asked.sandbox
            )
            given = replace(given, rollouts=taken)
        return await run_audit(subject, given, watch)


def _run_name(env: str, model: str, fingerprint: str) -> str:
    """A folder for the rollouts of a model in exactly this environment: another one's would say nothing about it."""
    exactly = fingerprint.removeprefix("sha256:")[:8]
    return re.sub(r"[^A-Za-z0-9._-]+", "-", f"{Path(env).name}-{model}-{exactly}").strip("-.")


class Progress:
    """One line a probe on stderr; on a terminal the running one is shown too."""

    def __init__(self) -> None:
        self._console = Console(stderr=True, highlight=False, soft_wrap=True)

    def note(self, probe: Probe, report: ProbeReport | None) -> None:
        """A probe has started, or ended."""
        if report is None:
            if sys.stderr.isatty():
                self._console.print(f"[dim]{probe.layer:>13}  {probe.name} ...[/]", end="\r")
            return
        found = f"[yellow]{report.findings} found[/]" if report.findings else "nothing"
        words = {State.RAN: found, State.DOES_NOT_APPLY: f"[dim]not applicable: {escape(report.why)}[/]"}
        said = words.get(report.state, f"[red]could not run: {escape(report.why)}[/]")
        said += "  [dim]finished earlier, not run again[/]" if report.earlier else ""
        self._console.print(f"[dim]{probe.layer:>13}[/]  {probe.name}  {said}  [dim]{report.seconds:.1f} s[/]")


def _silent(_probe: Probe, _report: ProbeReport | None) -> None:
    pass


def print_probes(*, json: bool) -> None:
    """Everything an audit looks for."""
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


def show(audit: Audit, folder: Path | None, *, json: bool) -> None:
    """To stdout."""
    if json:
        print_json(msgspec.json.decode(as_json(audit)))
        return
    console = Console(highlight=False, soft_wrap=True)
    style = _STYLES[audit.verdict]
    console.print(f"\n[bold]{escape(audit.name)}[/]: [{style}]{audit.verdict.value}[/]  {escape(verdict_sentence(audit))}")
    facts = f"{audit.tasks} of {audit.of_tasks} tasks, {audit.trials:,} trials, {audit.seconds:.0f} s"
    console.print(f"[dim]{facts}, fingerprint {audit.fingerprint.removeprefix('sha256:')[:12]}, seed {audit.seed}[/]\n")
    for report in audit.layers:
        mark = {State.RAN: "[green]ran[/]", State.COULD_NOT_RUN: "[red]could not run[/]"}.get(
            report.state, f"[dim]{report.state}[/]"
        )
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
        console.print(f"[yellow]waiver of {escape(waiver.finding)} expired on {waiver.expires}: it waives nothing[/]")
    if folder is not None:
        console.print(f"\n[dim]report:[/] {folder / 'report.html'}   [dim]also report.md, audit.json[/]")


def _print_finding(console: Console, audit: Audit, finding: Finding) -> None:
    style = _SEVERITIES[finding.severity]
    times = f" ({finding.count} times)" if finding.count > 1 else ""
    title = escape(_short(finding.title))
    console.print(f"\n[{style}]{finding.code}[/] [bold]{title}[/]  [dim]{defect_name(finding)}, {finding.severity}{times}[/]")
    assert finding.witness is not None
    for name, value in (
        *finding.witness.inputs.items(),
        ("expected", finding.witness.expected),
        ("observed", finding.witness.observed),
    ):
        console.print(f"  [dim]{escape(str(name)):>10}[/]  {escape(_short(str(value)))}")
    console.print(f"  [dim]       fix[/]  {escape(fix_of(finding))}")
    console.print(f"  [dim] reproduce[/]  {escape(reproduce_command(audit, finding))}")


def _short(text: str) -> str:
    """One line that a terminal can show, whatever a subject wrote."""
    plain = one_line(text)
    return plain if len(plain) <= _LONGEST else plain[: _LONGEST - 1] + "…"
