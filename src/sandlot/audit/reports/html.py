"""The HTML report: one file without network access. Text of the subject is escaped."""

from html import escape

from sandlot.audit.finding import Confidence, Finding, Severity
from sandlot.audit.reports.wording import (
    WHAT_LAYERS_DO,
    coverage_lines,
    defect_name,
    fix_of,
    layer_line,
    reproduce_command,
    verdict_sentence,
    witness_lines,
)
from sandlot.audit.verdict import Audit, AuditVerdict, LayerReport, State
from sandlot.observe.page import html_page

_COLOURS = {AuditVerdict.SHIP: "--green", AuditVerdict.FIX: "--red", AuditVerdict.INCOMPLETE: "--amber"}
_SEVERITIES = {Severity.BLOCKER: "--red", Severity.HIGH: "--red", Severity.LOW: "--amber", Severity.INFO: "--dim"}


def as_page(audit: Audit) -> str:
    """The whole report."""
    confirmed = [finding for finding in audit.findings if finding.standing is Confidence.CONFIRMED]
    leads = [finding for finding in audit.findings if finding.standing is Confidence.LEAD]
    body = [
        _headline(audit, confirmed, leads),
        *(f"<p>{escape(line)}.</p>" for line in coverage_lines(audit)),
        "<h2>Layers</h2>",
        _layers(audit),
        _parts(audit),
        *_section("Confirmed", "Each was shown by a trial.", confirmed, audit),
        *_section("Leads", "Unconfirmed: worth a look, but not shown by a trial.", leads, audit),
        _waived(audit),
    ]
    return html_page(f"Audit of {audit.name}: {audit.verdict.value}", "".join(body))


def _headline(audit: Audit, confirmed: list[Finding], leads: list[Finding]) -> str:
    tiles = {
        "confirmed": str(len(confirmed)),
        "leads": str(len(leads)),
        "waived": str(len(audit.waived)),
        "tasks played": f"{audit.tasks} of {audit.of_tasks}",
        "trials": f"{audit.trials:,}",
        "time": f"{audit.seconds:.0f} s",
        "fingerprint": audit.fingerprint.removeprefix("sha256:")[:12],
    }
    shown = "".join(f"<div><b>{escape(value)}</b><span>{escape(name)}</span></div>" for name, value in tiles.items())
    return (
        f'<h1>{escape(audit.name)}</h1><p class="dim">{escape(audit.subject)}, audited with seed {audit.seed} '
        f"by Sandlot {escape(audit.sandlot)}</p>"
        f'<section class="change"><div class="score"><b style="color:var({_COLOURS[audit.verdict]})">{audit.verdict.value}'
        "</b></div>"
        f'<div class="verdict">{escape(verdict_sentence(audit))}.</div></section><section class="tiles">{shown}</section>'
    )


def _layers(audit: Audit) -> str:
    rows = "".join(_layer(report) for report in audit.layers)
    head = "<tr><th>layer</th><th>what it does</th><th>result</th><th>time</th></tr>"
    return f'<div class="wide"><table>{head}{rows}</table></div>'


def _layer(report: LayerReport) -> str:
    colour = {State.RAN: "--green", State.COULD_NOT_RUN: "--red", State.NOT_REACHED: "--amber"}.get(report.state, "--dim")
    seconds = sum(probe.seconds for probe in report.probes)
    names = ", ".join(f"{probe.name} ({probe.findings})" if probe.findings else probe.name for probe in report.probes)
    return (
        f'<tr><td title="{escape(names)}">{report.layer}</td><td>{WHAT_LAYERS_DO[report.layer]}</td>'
        f'<td style="color:var({colour});white-space:normal">{escape(layer_line(report))}</td>'
        f"<td>{f'{seconds:.1f} s' if seconds else ''}</td></tr>"
    )


def _parts(audit: Audit) -> str:
    """A row for each check, turn, tool and kind of artifact: how often it was attacked, and with what result."""
    rows = "".join(
        f"<tr><td>{part.kind}</td><td style='white-space:normal'>{escape(part.name)}</td>"
        f"<td>{f'{part.share:.1%}' if part.share else ''}</td><td>{part.standing}</td><td>{part.tried:,}</td>"
        f"<td>{part.lost:,}</td><td style='white-space:normal'>{escape(part.why)}</td></tr>"
        for part in audit.coverage.parts
    )
    head = "<tr><th>part</th><th>name</th><th>points</th><th>result</th><th>attacks</th><th>lost points</th><th>why</th></tr>"
    return f'<h2>What was attacked</h2><div class="wide"><table>{head}{rows}</table></div>' if rows else ""


def _section(title: str, what: str, findings: list[Finding], audit: Audit) -> list[str]:
    if not findings:
        return []
    return [f'<h2>{title}</h2><p class="dim">{what}</p>', *(_finding(finding, audit) for finding in findings)]


def _finding(finding: Finding, audit: Audit) -> str:
    place = [f"task {finding.task}"] if finding.task else []
    place += [f"check {finding.check}"] if finding.check else []
    place += [finding.where] if finding.where else []
    place += [f"{finding.count} times"] if finding.count > 1 else []
    witness = "\n".join(witness_lines(finding))
    shown = f"<pre>{escape(witness)}</pre>" if witness else ""
    return (
        f'<figure style="margin-top:12px"><h3><span style="color:var({_SEVERITIES[finding.severity]})">'
        f"{escape(finding.code)}</span> {escape(finding.title)}</h3>"
        f"<p>{escape(defect_name(finding))}, {finding.severity}{escape(': ' + ', '.join(place) if place else '')}</p>{shown}"
        f"<p>Fix: {escape(fix_of(finding))}</p><p>Reproduce: <code>{escape(reproduce_command(audit, finding))}</code></p>"
        f"<p><small>{escape(finding.id)}</small></p></figure>"
    )


def _waived(audit: Audit) -> str:
    rows = [
        f"<tr><td>{escape(each.finding.id)}</td><td style='white-space:normal'>{escape(each.finding.title)}</td>"
        f"<td style='white-space:normal'>{escape(each.waiver.reason)}</td><td>{escape(each.waiver.owner)}</td>"
        f"<td>{escape(each.waiver.expires)}</td></tr>"
        for each in audit.waived
    ]
    rows += [
        f"<tr><td>{escape(waiver.finding)}</td><td class='down'>expired: no longer counts</td><td>{escape(waiver.reason)}</td>"
        f"<td>{escape(waiver.owner)}</td><td>{escape(waiver.expires)}</td></tr>"
        for waiver in audit.expired
    ]
    if not rows:
        return ""
    head = "<tr><th>finding</th><th>what</th><th>reason</th><th>owner</th><th>until</th></tr>"
    return f'<h2>Waived</h2><div class="wide"><table>{head}{"".join(rows)}</table></div>'
