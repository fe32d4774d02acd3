"""Texts that all reports and the terminal share."""

import shlex

import msgspec

from sandlot.audit.attacker.attacker import ATTACKER
from sandlot.audit.coverage import Standing, shares_line, untested_line
from sandlot.audit.defects import DEFECTS
from sandlot.audit.effect import AuditLimits, effect_line
from sandlot.audit.finding import Finding, Layer, Witness
from sandlot.audit.statement import shorten
from sandlot.audit.verdict import Audit, AuditVerdict, LayerReport, State

WHAT_LAYERS_DO = {
    Layer.STATIC: "reads code, tasks, data and schemas",
    Layer.GRADER: "grades synthetic answers and evidence",
    Layer.SCRIPTED: "plays adversaries, controls and mutants",
    Layer.DIFFERENTIAL: "repeats rollouts under other conditions",
    Layer.MODEL: "lets a model play",
    Layer.PEOPLE: "reads what people labelled",
}


_LONGEST = 1200
"""Maximum characters of one part of a witness."""
_MOST_OTHERS = 5
"""Further witnesses that a report shows; `audit.json` has all."""


def defect_name(finding: Finding) -> str:
    """The name of a finding's defect class."""
    defect = DEFECTS.get(finding.code.partition(".")[0])
    return defect.name if defect else finding.code


def fix_of(finding: Finding) -> str:
    """How to fix it: the probe's advice, else that of the defect class."""
    defect = DEFECTS.get(finding.code.partition(".")[0])
    return finding.fix or (defect.fix if defect else "")


def where_seen(finding: Finding) -> str:
    """Task, check, place and count of a finding; empty if it has none."""
    place = [f"task `{finding.task}`"] if finding.task else []
    place += [f"check `{finding.check}`"] if finding.check else []
    place += [f"`{finding.where}`"] if finding.where else []
    place += [f"{finding.count} times"] if finding.count > 1 else []
    return ", ".join(place)


def witness_lines(finding: Finding) -> list[str]:
    """The parts of a witness, each cut to 1,200 characters; none without a witness."""
    return [f"{name}: {value}"[:_LONGEST] for name, value in witness_parts(finding)]


def witness_parts(finding: Finding) -> list[tuple[str, str]]:
    """The inputs, the expected and the observed result of a witness, and why the answer is wrong, each with its name."""
    if finding.witness is None:
        return []
    parts = [(str(name), str(value)) for name, value in finding.witness.inputs.items()]
    parts += [("expected", finding.witness.expected), ("observed", finding.witness.observed)]
    parts += [("wrong", f"it {finding.reason}")] if finding.reason is not None else []
    return parts + [("also", _in_short(other)) for other in finding.others[:_MOST_OTHERS]]


def _in_short(witness: Witness) -> str:
    task, answer = witness.inputs.get("task"), witness.inputs.get("answer")
    return f"`{shorten(str(answer))}` on task `{task}`: {witness.observed}"


def reproduce_command(audit: Audit, finding: Finding) -> str:
    """The command that reproduces a finding."""
    tasks = ["--task", finding.task] if finding.task is not None else audit.chosen
    attacker = audit.attacker if finding.probe == ATTACKER else ()
    words = ["sandlot", "audit", *shlex.split(audit.subject), "--probe", finding.probe, *attacker, *tasks]
    return shlex.join([*words, "--seed", str(audit.seed)])


def verdict_sentence(audit: Audit) -> str:
    """The verdict in a sentence, and what nothing has read as code because the author says so."""
    hidden = ", ".join(f"`{folder}` ({num} Python {'file' if num == 1 else 'files'})" for folder, num in audit.material.items())
    return f"{_verdict_alone(audit)}; declared as material, and not read as code: {hidden}" if hidden else _verdict_alone(audit)


def _verdict_alone(audit: Audit) -> str:
    grave = sum(finding.grave for finding in audit.findings)
    if audit.verdict is AuditVerdict.FIX:
        return f"{grave} confirmed {'defect' if grave == 1 else 'defects'} that a model would learn from"
    if audit.verdict is AuditVerdict.INCOMPLETE:
        reasons: dict[str, list[str]] = {}
        for report in audit.layers:
            optional = report.layer in (Layer.MODEL, Layer.PEOPLE)
            if report.state in {State.COULD_NOT_RUN, State.NOT_REACHED} or (report.state is State.NOT_ASKED and not optional):
                reasons.setdefault(report.why or report.state.value, []).append(report.layer)
        if not audit.coverage.complete:
            untested = [part for part in audit.coverage.untested if part.share > 0]
            shown = ", ".join(f"`{part.name}`" for part in untested[:4]) + ", ..." * (len(untested) > 4)
            share, why = audit.coverage.share(Standing.UNTESTED), "; ".join(dict.fromkeys(part.why for part in untested))
            reasons.setdefault(f"{share:.0%} of the points were not attacked ({why})", []).append(shown)
        return "not everything could be checked: " + "; ".join(f"{', '.join(names)}: {why}" for why, names in reasons.items())
    missing = [report.layer for report in audit.layers if report.state is State.DOES_NOT_APPLY]
    aside = f" that applies (not: {', '.join(missing)})" if missing else ""
    return f"every mandatory layer{aside} ran, and no serious defect was confirmed"


def coverage_lines(audit: Audit) -> list[str]:
    """The shares of the points, then what nothing attacked; none if nothing is known about points."""
    if not audit.coverage.parts:
        return []
    lines = [shares_line(audit.coverage), untested_line(audit.coverage), effect_line(audit.findings), _limits_line(audit.limits)]
    return [line for line in lines if line]


def _limits_line(limits: AuditLimits) -> str:
    """The limits that the author states instead of the usual ones; empty if there are none."""
    usual, stated = msgspec.structs.asdict(AuditLimits()), msgspec.structs.asdict(limits)
    changed = [f"`{name}` {value:g} (usually {usual[name]:g})" for name, value in stated.items() if value != usual[name]]
    return f"limits stated by the author: {', '.join(changed)}" if changed else ""


def layer_line(report: LayerReport) -> str:
    """The result of a layer in a few words."""
    ran = [probe for probe in report.probes if probe.state is State.RAN]
    skipped = [probe for probe in report.probes if probe.state is State.DOES_NOT_APPLY]
    if report.state is State.RAN or report.probes:
        aside = f", {len(skipped)} not applicable" if skipped else ""
        return f"{len(ran)} of {len(report.probes) - len(skipped)} probes{aside}" + (f"; {report.why}" if report.why else "")
    return report.why or report.state.value
