"""The environment that the command named, and what is stored about the environment of a run.

Loading an environment runs its code, so only the one that the command named is ever loaded, and never one that a request or a
manifest names. The page of a run shows what its manifest, its rows and a stored audit know.
"""

import time
from collections import Counter
from pathlib import Path
from typing import Any

import msgspec

from sandlot.audit.reports.folder import place_of, read_audit
from sandlot.calibrate.tasks.calibration import FILE as CALIBRATION
from sandlot.calibrate.tasks.calibration import Calibration
from sandlot.core.errors import ConfigError, SandlotError
from sandlot.core.limits import Limits
from sandlot.core.ports.world import ToolSpec
from sandlot.core.rubric import Check, JudgeCheck
from sandlot.core.text import one_line, printable
from sandlot.core.trace import Scored
from sandlot.env.facts import environment_facts
from sandlot.run.catalog import list_runs, scores_by_task
from sandlot.run.results import Run
from sandlot.web.pages.audit import audit_facts
from sandlot.web.site import Asked, ServedEnvironment, link

_TASKS = 100
"""Tasks on one page."""
_RUNS = 20
_PROMPT = 4_000


def environment_page(asked: Asked) -> dict[str, Any]:
    """The environment that the command named."""
    served, start, folder = require_served(asked), asked.number("from"), asked.site.folder
    facts = environment_facts(served.env)
    run = _newest_calibration(folder, served.env.name)
    calibration = _read_calibration(run) if run else None
    placed = {each.task: each for each in calibration.placements} if calibration else {}
    wanted = asked.query.get("task", "").lower()
    tasks = [task for task in facts["tasks"] if wanted in task["id"].lower() or wanted in task["prompt"].lower()]
    return {
        "title": served.env.name,
        "name": served.env.name,
        "what": served.what,
        "facts": facts,
        "changed": facts["fingerprint"] != served.fingerprint,
        "description": printable(served.env.description, _PROMPT),
        "system": printable(served.env.system, _PROMPT),
        "tools": [_tool(tool) for tool in facts["tools"]],
        "limits": _limits(served.env.limits),
        "constraints": [(rule.id, rule.describe(), str(rule.on_breach)) for rule in served.env.constraints],
        "rubrics": [
            (name, facts["points"][name], [_check(each) for each in checks]) for name, checks in facts["rubrics"].items()
        ],
        "editable": served.rubrics,
        "tasks": [_task(task, placed) for task in tasks[start : start + _TASKS]],
        "wanted": asked.query.get("task", ""),
        "start": start,
        "num_tasks": len(tasks),
        "next": start + _TASKS if start + _TASKS < len(tasks) else None,
        "previous": max(0, start - _TASKS) if start else None,
        "calibration": _calibration(calibration, run, facts["fingerprint"]),
        "runs": [(Path(entry.run).name, entry) for entry in reversed(list_runs(folder)) if entry.environment == served.env.name][
            :_RUNS
        ],
        **_audit(served.env.name, (served.what,), facts["fingerprint"], folder),
    }


def run_environment_page(asked: Asked) -> dict[str, Any]:
    """What is stored about the environment of a run. Nothing of it is loaded."""
    path, start, folder = asked.run, asked.number("from"), asked.site.folder
    run = Run(path)
    manifest, scores = run.manifest, scores_by_task(run)
    calibration = _read_calibration(path)
    placed = {each.task: each for each in calibration.placements} if calibration else {}
    served = asked.site.environment
    return {
        "title": f"environment of {path.name}",
        "name": path.name,
        "manifest": manifest,
        "served": served is not None and served.fingerprint == manifest.fingerprints.environment,
        "tools": [_tool(tool) for tool in manifest.tools],
        "limits": _limits(manifest.limits) if manifest.limits else [],
        "splits": Counter(each.split for each in scores),
        "tasks": [(each, placed.get(each.task)) for each in scores[start : start + _TASKS]],
        "start": start,
        "num_tasks": len(scores),
        "next": start + _TASKS if start + _TASKS < len(scores) else None,
        "previous": max(0, start - _TASKS) if start else None,
        "checks": _graded_checks(run),
        "calibration": _calibration(calibration, path, manifest.fingerprints.environment),
        **_audit(manifest.environment, (manifest.config.env, manifest.source), manifest.fingerprints.environment, folder),
    }


def require_served(asked: Asked) -> ServedEnvironment:
    """The environment that the command named; `ConfigError` if it named none."""
    if asked.site.environment is None:
        raise ConfigError("no environment is served; start the view with one: `sandlot view ENV`")
    return asked.site.environment


def _audit(name: str, named: tuple[str, ...], fingerprint: str, folder: Path) -> dict[str, Any]:
    """The stored audit of an environment by one of the words that name it, or why it cannot be read."""
    try:
        audits = [read_audit(name, place_of(what), folder) for what in named]
        audit = next((each for each in audits if each is not None), None)
    except (SandlotError, OSError) as error:
        return {"audit": None, "audit_problem": printable(str(error), 1000), "audit_stale": False}
    if audit is None:
        return {"audit": None, "audit_problem": "", "audit_stale": False}
    return {"audit": audit_facts(audit), "audit_problem": "", "audit_stale": audit.fingerprint != fingerprint}


def _tool(tool: ToolSpec) -> dict[str, Any]:
    return {
        "name": printable(tool.name, 200),
        "description": printable(tool.description, _PROMPT),
        "arguments": ", ".join(printable(str(name), 100) for name in tool.parameters.get("properties", {})),
        "schema": printable(msgspec.json.format(msgspec.json.encode(tool.parameters), indent=2).decode(), 20_000),
    }


def _limits(limits: Limits) -> list[tuple[str, str]]:
    values = ((name, getattr(limits, name)) for name in limits.__struct_fields__)
    return [
        (name, "none" if value is None else f"{value:,}" if isinstance(value, int) else f"{value:g}") for name, value in values
    ]


def _check(check: Check) -> dict[str, Any]:
    judged = isinstance(check, JudgeCheck)
    return {
        "id": printable(check.id, 200),
        "points": check.points,
        "by": "judge" if judged else "code",
        "rule": printable(check.prompt if judged else check.ref, _PROMPT),
        "args": "" if judged or not check.args else printable(msgspec.json.encode(check.args).decode(), 1000),
        "requires": [printable(each, 200) for each in check.requires],
        "gate": check.gate,
        "tags": [printable(each, 100) for each in check.tags],
    }


def _graded_checks(run: Run) -> list[dict[str, Any]]:
    """The checks with which one scored rollout was graded, and what they are worth."""
    outcomes = run.reader.table(["outcome"]).column("outcome").to_pylist()
    if "scored" not in outcomes:
        return []
    outcome = run.reader.trace_at(outcomes.index("scored")).outcome
    checks = outcome.score.checks if isinstance(outcome, Scored) else ()
    return [{"id": printable(each.id, 200), "worth": each.worth, "by": "judge" if each.judge else "code"} for each in checks]


def _task(task: dict[str, Any], placed: dict[str, Any]) -> dict[str, Any]:
    return {
        "id": task["id"],
        "split": str(task["split"]),
        "tags": [printable(tag, 100) for tag in task["tags"]],
        "rubric": printable(str(task["rubric"] or ""), 100),
        "line": one_line(task["prompt"], 140),
        "prompt": printable(task["prompt"], _PROMPT),
        "placed": placed.get(task["id"]),
    }


# -- calibrations --------------------------------------------------------------------------------------------------------------


class _CalibrationHead(msgspec.Struct):
    """The part of a calibration that is read to choose one."""

    environment: str
    created: float


def _newest_calibration(folder: Path, name: str) -> Path | None:
    """The run with the newest calibration of an environment with this name."""
    found: list[tuple[float, Path]] = []
    for file in folder.glob(f"*/{CALIBRATION}"):
        try:
            head = msgspec.json.decode(file.read_bytes(), type=_CalibrationHead)
        except (OSError, msgspec.MsgspecError, UnicodeDecodeError):
            continue  # it is being written, or damaged; the page of its run says so
        found += [(head.created, file.parent)] if head.environment == name else []
    return max(found)[1] if found else None


def _read_calibration(run: Path) -> Calibration | None:
    try:
        return msgspec.json.decode((run / CALIBRATION).read_bytes(), type=Calibration)
    except FileNotFoundError:
        return None
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise ConfigError(f"`{run / CALIBRATION}` is damaged: {error}") from error


def _calibration(found: Calibration | None, run: Path | None, fingerprint: str) -> dict[str, Any] | None:
    if found is None or run is None:
        return None
    counts = Counter(str(each.label) for each in found.placements)
    most = max([*found.histogram, 1])
    return {
        "model": printable(found.model, 200),
        "verdict": found.verdict,
        "band": (found.rule.low, found.rule.high),
        "age": time.strftime("%Y-%m-%d", time.gmtime(found.created)),
        "stale": found.fingerprints.environment != fingerprint,
        "counts": counts.most_common(),
        "informative": found.informative,
        "bars": [
            {"x": 10 * place, "height": 38 * count / most, "y": 40 - 38 * count / most, "count": count, "number": place}
            for place, count in enumerate(found.histogram)
        ],
        "link": link(run.name),
    }
