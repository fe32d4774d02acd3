"""The SARIF 2.1.0 report for code-scanning services, with findings at their lines.

A waived finding is suppressed with its justification. A layer that could not run is a notification of an unsuccessful execution:
without it the results would look clean.
"""

import datetime as dt
import re
import shlex
from collections.abc import Sequence
from pathlib import PurePosixPath
from typing import Any
from urllib.parse import quote

import msgspec

from sandlot.audit.defects import DEFECTS
from sandlot.audit.finding import MANDATORY, Confidence, Finding, Severity
from sandlot.audit.reports.wording import fix_of, reproduce_command, where_seen
from sandlot.audit.verdict import Audit, AuditVerdict, State
from sandlot.audit.waivers import Waiver
from sandlot.core.text import one_line
from sandlot.core.types import Json

_SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
_LONGEST = 600
"""Maximum characters of one part of a witness."""
_LEVELS = {
    Confidence.CONFIRMED: {Severity.BLOCKER: "error", Severity.HIGH: "error", Severity.LOW: "warning", Severity.INFO: "note"},
    Confidence.LEAD: {Severity.BLOCKER: "warning", Severity.HIGH: "warning", Severity.LOW: "note", Severity.INFO: "note"},
}


def as_sarif(audit: Audit) -> str:
    """The whole report."""
    found = [*((finding, None) for finding in audit.findings), *((each.finding, each.waiver) for each in audit.waived)]
    codes = sorted({finding.code for finding, _ in found})
    run = {
        "tool": {"driver": {"name": "sandlot audit", "version": audit.sandlot, "rules": [_rule(code) for code in codes]}},
        "automationDetails": {"id": f"sandlot-audit/{one_line(audit.name)}/"},
        "invocations": [_invocation(audit)],
        "columnKind": "unicodeCodePoints",
        "results": [_result(audit, finding, waiver, codes) for finding, waiver in found],
        "properties": {
            "verdict": audit.verdict.value,
            "fingerprint": audit.fingerprint,
            "seed": audit.seed,
            "tasks": audit.tasks,
            "ofTasks": audit.of_tasks,
            "trials": audit.trials,
        },
    }
    log = {"$schema": _SCHEMA, "version": "2.1.0", "runs": [run]}
    return msgspec.json.format(msgspec.json.encode(log), indent=2).decode() + "\n"


def _rule(code: str) -> Json:
    defect = DEFECTS.get(code.partition(".")[0])
    if defect is None:
        return {"id": code}
    return {
        "id": code,
        "shortDescription": {"text": defect.name},
        "fullDescription": {"text": f"A model learns {defect.harm}."},
        "help": {"text": defect.fix},
    }


def _result(audit: Audit, finding: Finding, waiver: Waiver | None, codes: Sequence[str]) -> Json:
    result: Json = {
        "ruleId": finding.code,
        "ruleIndex": codes.index(finding.code),
        "level": _LEVELS[finding.standing][finding.severity],
        "message": {"text": _message(audit, finding)},
        "locations": [_location(audit, finding)],
        "occurrenceCount": max(1, finding.count),
        "partialFingerprints": {"sandlotFinding/v1": finding.id},
        "suppressions": [],  # SARIF wants it on all results or on none
        "properties": {
            "severity": finding.severity.value,
            "standing": finding.standing.value,
            "layer": finding.layer.value,
            "probe": finding.probe,
        },
    }
    if waiver is not None:
        why = one_line(f"{waiver.reason} ({waiver.owner}, until {waiver.expires})")
        result["suppressions"] = [{"kind": "external", "status": "accepted", "justification": why}]
    return result


def _message(audit: Audit, finding: Finding) -> str:
    place = where_seen(finding)
    lines = [one_line(finding.title) + (f" ({one_line(place)})" if place else "")]
    if finding.witness is not None:
        lines += [f"{one_line(f'{name}: {value}')[:_LONGEST]}" for name, value in finding.witness.inputs.items()]
        lines.append(f"expected: {one_line(finding.witness.expected)[:_LONGEST]}")
        lines.append(f"observed: {one_line(finding.witness.observed)[:_LONGEST]}")
    lines += [f"fix: {one_line(fix_of(finding))}", f"reproduce: {one_line(reproduce_command(audit, finding))}"]
    return "\n".join(lines)


# -- where ---------------------------------------------------------------------------------------------------------------------


def _location(audit: Audit, finding: Finding) -> Json:
    """Services need a file: that of the finding, else the file or folder of the subject."""
    folder, whole = _place(audit)
    found = re.fullmatch(r"(?P<path>[^:]+):(?P<line>[1-9]\d{0,8})", one_line(finding.where or ""))
    path = str(folder / found["path"]) if found else whole
    physical: Json = {"artifactLocation": {"uri": _uri(path)}}
    if path.endswith(".py"):
        physical["region"] = {"startLine": int(found["line"]) if found else 1}
    named = {"task": finding.task, "check": finding.check, "object": None if found else finding.where}
    logical: list[Any] = [{"name": one_line(name), "kind": kind} for kind, name in named.items() if name]
    return {"physicalLocation": physical, **({"logicalLocations": logical} if logical else {})}


def _place(audit: Audit) -> tuple[PurePosixPath, str]:
    """The folder that paths of findings are relative to, and the path of the subject."""
    if audit.kind != "environment":
        module = audit.name.partition(":")[0]
        return PurePosixPath(), one_line(module).replace(".", "/") + ".py" if ":" in audit.name else one_line(module)
    named = PurePosixPath(one_line(shlex.split(audit.subject)[0]))
    return (named.parent if named.suffix == ".py" else named), str(named)


def _uri(path: str) -> str:
    return f"file://{quote(path)}" if path.startswith("/") else quote(path)


# -- how it went ---------------------------------------------------------------------------------------------------------------


def _invocation(audit: Audit) -> Json:
    broken = any(report.state in {State.COULD_NOT_RUN, State.NOT_REACHED} for report in audit.layers)
    return {
        "executionSuccessful": audit.verdict is not AuditVerdict.INCOMPLETE and not broken,
        "exitCode": audit.verdict.exit_code,
        "exitCodeDescription": audit.verdict.value,
        "commandLine": one_line(f"sandlot audit {audit.subject}"),
        "startTimeUtc": _time(audit.started),
        "endTimeUtc": _time(audit.started + audit.seconds),
        "toolExecutionNotifications": [*_layers(audit), *_expired(audit)],
    }


def _time(seconds: float) -> str:
    return dt.datetime.fromtimestamp(seconds, dt.UTC).strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3] + "Z"


def _layers(audit: Audit) -> list[Json]:
    levels = {
        State.COULD_NOT_RUN: "error",
        State.NOT_REACHED: "warning",
        State.NOT_ASKED: "warning",
        State.DOES_NOT_APPLY: "note",
    }
    return [
        {
            "level": levels[report.state],
            "message": {"text": one_line(f"{report.layer}: {report.state}" + (f": {report.why}" if report.why else ""))},
        }
        for report in audit.layers
        if report.state in levels and (report.layer in MANDATORY or report.state is State.COULD_NOT_RUN)
    ]


def _expired(audit: Audit) -> list[Json]:
    return [
        {
            "level": "warning",
            "message": {"text": one_line(f"the waiver of {waiver.finding} expired on {waiver.expires} and no longer counts")},
        }
        for waiver in audit.expired
    ]
