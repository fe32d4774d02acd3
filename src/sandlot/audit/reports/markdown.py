"""The Markdown report, for pull requests."""

from sandlot.audit.finding import Finding
from sandlot.audit.reports.wording import (
    WHAT_LAYERS_DO,
    coverage_lines,
    defect_name,
    fix_of,
    layer_line,
    reproduce_command,
    verdict_sentence,
    where_seen,
    witness_lines,
)
from sandlot.audit.verdict import Audit
from sandlot.core.text import one_line


def as_markdown(audit: Audit) -> str:
    """The whole report."""
    played = f"{audit.tasks} of {audit.of_tasks} tasks, {audit.trials:,} trials, {audit.seconds:.0f} s, seed {audit.seed}"
    lines = [
        f"# Audit of {audit.name}: {audit.verdict.value}",
        "",
        f"{verdict_sentence(audit)[:1].upper()}{verdict_sentence(audit)[1:]}.",
        "",
        *(line for text in coverage_lines(audit) for line in (f"{one_line(text)}.", "")),
        f"`{audit.subject}`, fingerprint `{audit.fingerprint}`; {played}, Sandlot {audit.sandlot}.",
        "",
        "| layer | what it does | result |",
        "|---|---|---|",
        *(f"| {report.layer} | {WHAT_LAYERS_DO[report.layer]} | {_cell(layer_line(report))} |" for report in audit.layers),
    ]
    for title, found in (
        ("Confirmed", [finding for finding in audit.findings if finding.standing == "confirmed"]),
        ("Leads", [finding for finding in audit.findings if finding.standing == "lead"]),
    ):
        if found:
            lines += ["", f"## {title}"]
        for finding in found:
            lines += ["", *_finding(audit, finding)]
    if audit.waived:
        lines += ["", "## Waived", ""]
        for each in audit.waived:
            said = f"{each.waiver.reason} ({each.waiver.owner}, until {each.waiver.expires})"
            lines.append(f"- `{each.finding.id}` {one_line(each.finding.title)}: {one_line(said)}")
    for waiver in audit.expired:
        lines += [
            "",
            f"Waiver of `{waiver.finding}` expired on {waiver.expires} and no longer counts ({one_line(waiver.owner)}).",
        ]
    return "\n".join(lines) + "\n"


def _finding(audit: Audit, finding: Finding) -> list[str]:
    place = where_seen(finding)
    lines = [
        f"### {finding.code} {defect_name(finding)} ({finding.severity})",
        "",
        f"{one_line(finding.title)}" + (f" ({one_line(place)})" if place else ""),
        "",
    ]
    witness = witness_lines(finding)
    if witness:
        lines += [*(f"    {one_line(line)}" for line in witness), ""]  # one line each: text of a subject cannot end the block
    return [
        *lines,
        f"- fix: {one_line(fix_of(finding))}",
        f"- reproduce: `{reproduce_command(audit, finding)}`",
        f"- id: `{finding.id}`",
    ]


def _cell(text: str) -> str:
    return one_line(text).replace("|", "\\|")
