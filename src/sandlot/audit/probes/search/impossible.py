"""Impossible twins: every task again, in a world where every tool refuses, so that nothing can be done.

Golden's calls are made and its words are said. Whoever pays more for that than for the words alone reads what an agent tries,
not what it did.
"""

from collections.abc import Sequence

from sandlot.audit.case import Case, Probe
from sandlot.audit.finding import Finding, Layer, Severity, make_finding
from sandlot.audit.probes.likeness import EPSILON
from sandlot.audit.probes.plays import choose_tasks, request_for, witness_of
from sandlot.audit.probes.scripted.earning import missing_work
from sandlot.audit.probes.scripted.floor import needs_both
from sandlot.audit.probes.scripted.reach import GoldenWork, find_works
from sandlot.audit.reason import Reason
from sandlot.audit.subject import Conditions, Say, Script, Trial

_TASKS, _SANDBOXED = 16, 3
_REFUSED = Conditions(fault="tool:refuse", limits={"turns": 1000})
_MUCH = 0.5
"""Points above this share are reported; fewer may be for trying."""


async def _look_at_twins(case: Case) -> list[Finding]:
    """Nothing that is said and tried earns the points of work that could not be done."""
    chosen = [task for task in choose_tasks(case, _TASKS, sandboxed=_SANDBOXED) if not case.may_idle(task)]
    works = [work for work in await find_works(case, chosen) if work.calls and work.changes]
    trials = await case.take([request_for(case, work.task, work.script) for work in works], _REFUSED)
    words = await case.take([request_for(case, work.task, _words(work)) for work in works])
    paid = [
        (work, trial, missing_work(work, trial))
        for work, trial, said in zip(works, trials, words, strict=True)
        if trial.reward is not None and trial.reward > max(case.floor, said.reward or 0.0, _MUCH) + EPSILON
    ]
    return [_finding(case, paid, len(works))] if paid else []


def _words(work: GoldenWork) -> Script:
    """Golden's words without its calls: what they earn is not earned by trying."""
    turns = tuple(turn for turn in work.script.turns if isinstance(turn[0], Say))
    return Script(name="golden-words", turns=turns)


def _finding(case: Case, paid: Sequence[tuple[GoldenWork, Trial, Reason | None]], num_tasks: int) -> Finding:
    work, trial, reason = max(paid, key=lambda each: (each[2] is not None, each[1].passed, each[1].reward or 0.0))
    gain = sum((each.reward or 0.0) - (one.idle.reward or 0.0) for one, each, _ in paid) / max(1, num_tasks)
    return make_finding(
        "D02.impossible",
        f"where every tool refuses, golden's calls and words still earn {trial.reward:g}, on {len(paid)} of {num_tasks} tasks",
        witness_of(
            case,
            work.task,
            work.script,
            "no more than golden's words alone earn",
            trial.fate,
            conditions={"fault": _REFUSED.fault},
        ),
        severity=Severity.HIGH,
        sure=trial.passed,
        count=len(paid),
        fix="grade what the world holds at the end, not which calls were made nor what was said about them",
        reason=reason,
        effect=gain,
        paid=trial.paid,
    )


PROBES = (Probe("impossible-twins", Layer.SCRIPTED, ("D02",), _look_at_twins, needs_both),)
