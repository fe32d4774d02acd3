"""Who earned what they should not have: trials of plays that are not the task, and the findings they make."""

from collections.abc import Sequence
from dataclasses import dataclass

from sandlot.audit.case import Case
from sandlot.audit.finding import Confidence, Finding, Layer, Severity, Witness
from sandlot.audit.probes.plays import witness_inputs
from sandlot.audit.subject import Play, Trial
from sandlot.core.task import Task
from sandlot.core.types import Side

EPSILON = 1e-9
_SMALL = 0.2
"""A gain up to this is a crumb: points for form, not for the task."""
_RARE = 0.05


@dataclass(frozen=True, slots=True)
class UnearnedReward:
    """One trial that earned more than it may."""

    task: Task
    play: Play
    trial: Trial
    allowed: float

    @property
    def reward(self) -> float:
        """What it got."""
        return self.trial.reward or 0.0

    @property
    def gain(self) -> float:
        """How much too much."""
        return self.reward - self.allowed


def _severity_of(earned: Sequence[UnearnedReward], num_tasks: int) -> Severity:
    """How much it teaches: much to gain on many tasks is grave, a crumb or a rare case is not."""
    share = len({each.task.id for each in earned}) / max(1, num_tasks)
    return Severity.HIGH if max(each.gain for each in earned) > _SMALL and share >= _RARE else Severity.LOW


def unearned_finding(
    case: Case, code: str, title: str, earned: Sequence[UnearnedReward], *, probe: str, num_tasks: int, fix: str = ""
) -> Finding:
    """One finding for one cause; the witness is the trial that gained most."""
    most = max(earned, key=lambda each: each.gain)
    affected = len({each.task.id for each in earned})
    return Finding(
        code=code,
        title=f"{title} (up to {most.reward:g}, on {affected} of {num_tasks} tasks)",
        layer=Layer.SCRIPTED,
        probe=probe,
        severity=_severity_of(earned, num_tasks),
        standing=Confidence.CONFIRMED,
        count=affected,
        witness=Witness(
            inputs=witness_inputs(most.task, most.play),
            expected=f"a reward of at most {most.allowed:g}",
            observed=most.trial.fate,
            seed=case.seed,
        ),
        fix=fix,
    )


def grading_crash(case: Case, taken: Sequence[tuple[Task, Play, Trial]], probe: str) -> list[Finding]:
    """Grading that breaks over what somebody left, instead of calling it wrong."""
    broken = [each for each in taken if each[2].failed is not None and each[2].failed.side is Side.GRADER]
    if not broken or (case.description.needs_judge and case.judge is None):
        return []
    task, play, trial = broken[0]
    return [
        Finding(
            code="D09.left",
            title="grading fails on what a rollout left",
            layer=Layer.SCRIPTED,
            probe=probe,
            severity=Severity.HIGH,
            standing=Confidence.CONFIRMED,
            count=len({each[0].id for each in broken}),
            witness=Witness(inputs=witness_inputs(task, play), expected="a score", observed=trial.fate, seed=case.seed),
        )
    ]
