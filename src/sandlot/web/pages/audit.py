"""Stored audits: the verdict, every finding with its witness, and the command that shows it again."""

from typing import Any

import msgspec

from sandlot.audit.finding import Confidence, Finding
from sandlot.audit.reports.folder import FILE, FOLDER
from sandlot.audit.reports.wording import (
    WHAT_LAYERS_DO,
    defect_name,
    fix_of,
    layer_line,
    reproduce_command,
    verdict_sentence,
    where_seen,
    witness_lines,
)
from sandlot.audit.verdict import FORMAT, Audit
from sandlot.core.errors import ConfigError
from sandlot.core.text import printable
from sandlot.web.site import Asked


def audits_page(asked: Asked) -> dict[str, Any]:
    """All audits below the folder of runs."""
    folder = asked.site.folder / FOLDER
    names = sorted(path.parent.name for path in folder.glob(f"*/{FILE}"))
    rows = [(name, *_try_reading(asked, name)) for name in names]
    return {"title": "audits", "folder": str(folder), "rows": rows}


def audit_page(asked: Asked) -> dict[str, Any]:
    """The audit in the folder that `of` names."""
    name = asked.query.get("of", "")
    return {"title": f"audit {name}", "name": name, "audit": audit_facts(_read(asked, name))}


def audit_facts(audit: Audit) -> dict[str, Any]:
    """An audit as pages show it."""
    grouped = [(standing, [each for each in audit.findings if each.standing is standing]) for standing in reversed(Confidence)]
    return {
        "name": printable(audit.name, 200),
        "subject": printable(audit.subject, 400),
        "verdict": audit.verdict.value,
        "sentence": printable(verdict_sentence(audit), 1000),
        "fingerprint": audit.fingerprint.removeprefix("sha256:")[:12],
        "tasks": audit.tasks,
        "of_tasks": audit.of_tasks,
        "trials": audit.trials,
        "seconds": audit.seconds,
        "layers": [
            (str(each.layer), WHAT_LAYERS_DO[each.layer], str(each.state), printable(layer_line(each), 400))
            for each in audit.layers
        ],
        "findings": [(str(standing), [_finding(audit, each) for each in found]) for standing, found in grouped if found],
        "waived": [
            (each.finding.id, printable(each.finding.title, 400), printable(each.waiver.reason, 400), each.waiver.expires)
            for each in audit.waived
        ],
    }


def _finding(audit: Audit, finding: Finding) -> dict[str, Any]:
    return {
        "id": finding.id,
        "code": finding.code,
        "severity": str(finding.severity),
        "grave": finding.grave,
        "title": printable(finding.title, 1000),
        "defect": defect_name(finding),
        "where": printable(where_seen(finding), 600),
        "witness": printable("\n".join(witness_lines(finding)), 8000),
        "fix": printable(fix_of(finding), 2000),
        "command": printable(reproduce_command(audit, finding), 2000),
    }


def _try_reading(asked: Asked, name: str) -> tuple[Audit | None, str]:
    try:
        return _read(asked, name), ""
    except (ConfigError, OSError) as error:
        return None, printable(str(error), 400)


def _read(asked: Asked, name: str) -> Audit:
    """The audit with this name: one of those that are in the folder, so that a name is never used as a path."""
    folder = asked.site.folder / FOLDER
    places = {path.parent.name: path for path in folder.glob(f"*/{FILE}")}
    if name not in places:
        raise ConfigError(f"no audit `{name[:200]}` in `{folder}`")
    try:
        audit = msgspec.json.decode(places[name].read_bytes(), type=Audit)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise ConfigError(f"`{places[name]}` is not an audit: {error}; run `sandlot audit` again") from error
    if audit.format != FORMAT:
        raise ConfigError(f"`{places[name]}` has format {audit.format}, this Sandlot reads {FORMAT}; run `sandlot audit` again")
    return audit
