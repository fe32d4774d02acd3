"""Rollouts of a model for an audit, and findings from their health report.

The rollouts are an ordinary run in its own process, because the auditor never loads its subject.
"""

import sys
from pathlib import Path

import anyio

from sandlot.analysis.health.health import health_async
from sandlot.analysis.health.item import HealthItem, HealthMark
from sandlot.audit.case import Case
from sandlot.audit.finding import Finding, Severity, Witness, make_finding
from sandlot.core.errors import ConfigError
from sandlot.run.results import Run

CODES = {
    "failures": "D04",
    "timeouts": "D04",
    "resolution": "D06",
    "survivors": "D23",
    "drift": "D05",
    "surge": "D02",
    "successes": "D02",
}
"""The defect for each health item that blames the environment; the others blame the model."""

_ROLLOUTS = 64
"""Enough to detect a failure rate of 5 %, which needs 59."""


async def take_rollouts(
    env: str, model: str, place: Path, *, judge: str | None = None, user: str | None = None, sandbox: str = "native"
) -> Path:
    """Run the model on the environment's training tasks; the same call continues an interrupted run."""
    options = ["--model", model, "--rollouts", str(_ROLLOUTS), "--split", "train", "--run", str(place), "--sandbox", sandbox]
    options += ["--judge", judge] if judge else []
    options += ["--user", user] if user else []
    done = await anyio.run_process([sys.executable, "-m", "sandlot", "run", env, *options, "--json"], check=False)
    if done.returncode not in (0, 1):  # 1: some rollouts failed, which the audit reads
        said = done.stderr.decode(errors="replace").strip().splitlines()
        raise ConfigError(f"rollouts of `{model}` for the audit: {said[-1] if said else f'exit code {done.returncode}'}")
    return place


async def look_at_health(case: Case) -> list[Finding]:
    """A model's rollouts pass `sandlot health`."""
    assert case.rollouts is not None
    run = Run(case.rollouts)
    health = await health_async(run, regrades=0, replays=0, seed=case.seed)
    items = [
        _finding(case, item, CODES[item.name])
        for item in health.items
        if item.name in CODES and item.mark in (HealthMark.FAIL, HealthMark.WARN)
    ]
    return [*reported_findings(run), *items]


def reported_findings(run: Run) -> list[Finding]:
    """A lead for each judge check that read what the agent's own program reported (`--agent-command`)."""
    return [
        make_finding(
            "D16.reported_view",
            f"`{check}` judged a conversation that the agent's own program reported: it may have invented calls and results",
            severity=Severity.HIGH,
            check=check,
            fix="let it read files, which are evidence, or check app journals and `tool_called` events",
        )
        for check in run.manifest.reported_checks
    ]


def _finding(case: Case, item: HealthItem, code: str) -> Finding:
    failed = item.mark is HealthMark.FAIL
    inputs = {"rollouts": str(case.rollouts), "look at": ", ".join(item.look) or "all of them", "figures": item.figures}
    return make_finding(
        f"{code}.{item.name}",
        f"rollouts of a model: {item.said}",
        Witness(inputs=inputs, expected=f"{item.name}: ok", observed=item.said, seed=case.seed) if failed else None,
        severity=Severity.HIGH if failed else Severity.LOW,
        fix=f"see `sandlot health {case.rollouts}` and `sandlot triage {case.rollouts}`",
    )
