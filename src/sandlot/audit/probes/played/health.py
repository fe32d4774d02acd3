"""Findings from the health report of a model's rollouts."""

from sandlot.analysis.health.health import health_async
from sandlot.analysis.health.item import HealthItem, HealthMark
from sandlot.audit.case import Case
from sandlot.audit.finding import Confidence, Finding, Layer, Severity, Witness
from sandlot.run.results import Run

NAME = "model-rollouts"
CODES = {"failures": "D04", "timeouts": "D04", "resolution": "D06", "survivors": "D23", "drift": "D05", "surge": "D02"}
"""The defect for each health item that blames the environment; the others blame the model."""


async def look_at_health(case: Case) -> list[Finding]:
    """A failed health item is a confirmed finding, a warning is a lead."""
    assert case.rollouts is not None
    health = await health_async(Run(case.rollouts), regrades=0, replays=0, seed=case.seed)
    return [
        _finding(case, item, CODES[item.name])
        for item in health.items
        if item.name in CODES and item.mark in (HealthMark.FAIL, HealthMark.WARN)
    ]


def _finding(case: Case, item: HealthItem, code: str) -> Finding:
    failed = item.mark is HealthMark.FAIL
    inputs = {"rollouts": str(case.rollouts), "look at": ", ".join(item.look) or "all of them", "figures": item.figures}
    return Finding(
        code=f"{code}.{item.name}",
        title=f"rollouts of a model: {item.said}",
        layer=Layer.MODEL,
        probe=NAME,
        severity=Severity.HIGH if failed else Severity.LOW,
        standing=Confidence.CONFIRMED if failed else Confidence.LEAD,
        witness=Witness(inputs=inputs, expected=f"{item.name}: ok", observed=item.said, seed=case.seed) if failed else None,
        fix=f"see `sandlot health {case.rollouts}` and `sandlot triage {case.rollouts}`",
    )
