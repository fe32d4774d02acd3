"""Rewards for plays that did not do the task, and the findings about them."""

from collections.abc import Sequence
from dataclasses import dataclass

from sandlot.audit.case import Case
from sandlot.audit.finding import Finding, Severity, make_finding
from sandlot.audit.probes.likeness import left_behind
from sandlot.audit.probes.plays import witness_of
from sandlot.audit.probes.scripted.reach import GoldenWork
from sandlot.audit.reason import Reason, ReasonKind, omission
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
    reason: Reason | None = None
    """Why what it did is wrong."""

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
    """One finding for one cause; the witness is the trial with the largest gain, of those with a reason if any has one."""
    earned = [each for each in earned if each.reason is not None] or earned
    most = max(earned, key=lambda each: each.gain)
    affected = len({each.task.id for each in earned})
    return make_finding(
        code,
        f"{title} (up to {max(each.trial.unclipped for each in earned):g}, on {affected} of {num_tasks} tasks)",
        witness_of(case, most.task, most.play, f"a reward of at most {most.allowed:g}", most.trial.fate),
        count=affected,
        severity=_severity_of(earned, num_tasks),
        fix=fix,
        reason=most.reason,
        effect=_expected_gain(earned, num_tasks),
        paid=most.trial.paid,
    )


def _expected_gain(earned: Sequence[UnearnedReward], num_tasks: int) -> float:
    """The largest gain of each task, on average over all tasks tried."""
    best: dict[str, float] = {}
    for each in earned:
        best[each.task.id] = max(each.gain, best.get(each.task.id, 0.0))
    return sum(best.values()) / max(1, num_tasks, len(best))


def missing_work(work: GoldenWork, trial: Trial) -> Reason | None:
    """Why a play did not do the task: what golden changes is as at the start, its files hold other things, or its answer lacks.

    None if nothing shows that: the play may have done it after all.
    """
    if not work.golden.passed:
        return None
    undone = sorted(work.undone(trial))
    if undone:
        return Reason(kind=ReasonKind.LEAVES_OUT, why=f"golden changes `{undone[0]}`, and here it is as at the start")
    left = left_behind(trial, without=[path for path in trial.evidence.files if path not in work.written])["files"]
    foreign = sorted(path for path, text in work.written.items() if not _lines(text) & _lines(left.get(path, "")))
    if foreign:
        return Reason(kind=ReasonKind.LEAVES_OUT, why=f"`{foreign[0]}` has no line of what golden writes there")
    if work.changes and not work.golden.answer_was_read:
        return None
    return omission(trial.evidence.answer, work.golden.evidence.answer, work.task.key)


def _lines(text: str) -> set[str]:
    return {line.strip() for line in text.splitlines() if line.strip()}


def grading_crash(case: Case, taken: Sequence[tuple[Task, Play, Trial]]) -> list[Finding]:
    """A finding if grading failed on what a play left, where it should have scored it."""
    broken = [each for each in taken if each[2].failed is not None and each[2].failed.side is Side.GRADER]
    if not broken or (case.description.needs_judge and case.judge is None):
        return []
    task, play, trial = broken[0]
    witness = witness_of(case, task, play, "a score", trial.fate)
    count = len({each[0].id for each in broken})
    return [make_finding("D09.left", "grading fails on what a scripted agent left", witness, count=count)]
