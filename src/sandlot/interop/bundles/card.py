"""The card of an environment: facts that were counted or measured, and what is not known."""

from collections import Counter
from pathlib import Path
from typing import Any

import msgspec

from sandlot.audit.verdict import Audit
from sandlot.core.errors import ConfigError
from sandlot.core.ports.importer import ImportReport
from sandlot.core.rubric import JudgeCheck, PythonCheck
from sandlot.core.types import Json
from sandlot.env.environment import Environment
from sandlot.env.facts import environment_facts
from sandlot.env.importing import REPORT


def card_of(env: Environment, files: dict[str, Path], audit: Audit | None, calibration: Json | None) -> str:
    """The card as Markdown. The same environment gives the same text."""
    facts = environment_facts(env)
    lines = [f"# {env.name}", "", env.description or "No description.", "", "| | |", "|---|---|"]
    lines += [f"| {name} | {value} |" for name, value in _rows(facts, files)]
    lines += ["", "## Audit", "", _audit(audit, facts["fingerprint"]), "", "## Calibration", "", _calibration(calibration), ""]
    return "\n".join(lines)


def _rows(facts: dict[str, Any], files: dict[str, Path]) -> list[tuple[str, str]]:
    checks = [check for rubric in facts["rubrics"].values() for check in rubric]
    judged = sum(isinstance(check, JudgeCheck) for check in checks)
    library = sum(isinstance(check, PythonCheck) and check.ref.startswith("sandlot:") for check in checks)
    splits = ", ".join(f"{count} {split}" for split, count in sorted(facts["splits"].items()))
    tools = ", ".join(f"`{tool.name}`" for tool in facts["tools"]) or "none"
    return [
        ("tasks", f"{len(facts['tasks'])} ({splits})"),
        ("tools", tools),
        ("MCP servers", str(len(facts["mcp_servers"]))),
        ("checks", f"{len(checks)} in {len(facts['rubrics'])} rubrics: {library} of the library, {judged} by a judge"),
        ("golden solution", "yes" if facts["solution"] else "no"),
        ("user", _cell(facts["user"] or "none")),
        ("image", f"`{_cell(facts['image'])}`" if facts["image"] else "none: files are in memory"),
        ("network", facts["network"]),
        ("turns", str(facts["limits"].turns)),
        ("licences", _licences(files)),
        ("fingerprint", f"`{facts['fingerprint']}`"),
    ]


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def _licences(files: dict[str, Path]) -> str:
    own = sorted(name for name in files if Path(name).stem.upper() in {"LICENSE", "LICENCE", "COPYING"})
    said = [f"see `{name}`" for name in own]
    if REPORT in files:
        try:
            report = msgspec.json.decode(files[REPORT].read_bytes(), type=ImportReport)
        except (msgspec.DecodeError, msgspec.ValidationError) as error:
            raise ConfigError(f"`{files[REPORT]}` is not a report of an import: {error}") from error
        counts = Counter(task.licence for task in report.tasks)
        said += [f"{count} tasks: {_cell(name)}" for name, count in sorted(counts.items())]
    return "; ".join(said) or "not stated"


def _audit(audit: Audit | None, fingerprint: str) -> str:
    if audit is None:
        return "Not audited as it is now."
    return (
        f"{audit.verdict.value} by Sandlot {audit.sandlot}: {audit.tasks} of {audit.of_tasks} tasks, {audit.trials:,} trials, "
        f"{len(audit.findings)} findings ({sum(finding.grave for finding in audit.findings)} grave), {len(audit.waived)} waived. "
        + ("It is of this fingerprint." if audit.fingerprint == fingerprint else "It is of another fingerprint.")
    )


def _calibration(calibration: Json | None) -> str:
    return "Not included." if calibration is None else "See `calibration.json`."
