"""Rewards for plays that did not do the task, and the findings about them."""

from collections.abc import Sequence
from dataclasses import dataclass

from sandlot.audit.case import Case
from sandlot.audit.finding import Finding, Severity, make_finding
from sandlot.audit.probes.plays import witness_of
from sandlot.audit.subject import Play, Trial
from sandlot.core.task import Task
from sandlot.core.types import Side

_SMALL = 0.2
"""A gain up to this is small: points for form, not for the task."""
_RARE = 0.05


@dataclass(frozen=True, slots=True)
class UnearnedReward:
    """One trial with a higher reward than allowed."""

    task: Task
    play: Play
    trial: Trial
    allowed: float

    @property
    def reward(self) -> float:
        """The reward of the trial."""
        return self.trial.reward or 0.0

    @property
    def gain(self) -> float:
        """The reward above what is allowed."""
        return self.reward - self.allowed


def _severity_of(earned: Sequence[UnearnedReward], num_tasks: int) -> Severity:
    """High if much can be gained on many tasks; low for small gains and rare cases."""
    share = len({each.task.id for each in earned}) / max(1, num_tasks)
    return Severity.HIGH if max(each.gain for each in earned) > _SMALL and share >= _RARE else Severity.LOW


def unearned_finding(
    case: Case, code: str, title: str, earned: Sequence[UnearnedReward], *, num_tasks: int, fix: str = ""
) -> Finding:
    """One finding for one cause; the witness is the trial with the largest gain."""
    most = max(earned, key=lambda each: each.gain)
    affected = len({each.task.id for each in earned})
    return make_finding(
        code,
        f"{title} (up to {most.reward:g}, on {affected} of {num_tasks} tasks)",
        witness_of(case, most.task, most.play, f"a reward of at most {most.allowed:g}", most.trial.fate),
        count=affected,
        severity=_severity_of(earned, num_tasks),
        fix=fix,
    )


def grading_crash(case: Case, taken: Sequence[tuple[Task, Play, Trial]]) -> list[Finding]:
    """A finding if grading failed on what a play left, where it should have scored it."""
    broken = [each for each in taken if each[2].failed is not None and each[2].failed.side is Side.GRADER]
    if not broken or (case.description.needs_judge and case.judge is None):
        return []
    task, play, trial = broken[0]
    witness = witness_of(case, task, play, "a score", trial.fate)
    count = len({each[0].id for each in broken})
    return [make_finding("D09.left", "grading fails on what a scripted agent left", witness, count=count)]
