"""Mutation score: the share of wrong solutions that the grader notices, of those that leave something else behind.

A mutant that leaves what golden leaves is no mutant. The rest must get less than golden. Over the same trials each check must
vary: one that says the same to golden, to mutants, to vandals and to those who do nothing, decides nothing.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from sandlot.audit.case import IDLE, Case, Probe
from sandlot.audit.finding import Confidence, Finding, Layer, Severity, Witness
from sandlot.audit.probes.choice import choose_tasks
from sandlot.audit.probes.likeness import changes_between, observations
from sandlot.audit.probes.plays import request_for, witness_inputs
from sandlot.audit.probes.scripted.attacks import destructive_script
from sandlot.audit.probes.scripted.criteria import find_dead_checks
from sandlot.audit.probes.scripted.earning import EPSILON, grading_crash
from sandlot.audit.probes.scripted.floor import needs_golden
from sandlot.audit.probes.scripted.graded import find_graded_changes
from sandlot.audit.probes.scripted.mutants import Mutant, mutants
from sandlot.audit.probes.scripted.reach import GoldenWork, find_works
from sandlot.audit.subject import Conditions, NamedPlay, Play, Trial

_GOLDEN = NamedPlay(name="golden")
TASKS, SANDBOXED = 16, 2
_GATE = 0.9
_BAD = 0.5
"""A mutation score below this leaves most wrong solutions unpunished."""
_ENOUGH = 10
"""Mutants that make a share of them worth believing."""
_MIN_TASKS = 4
"""Tasks on which the same argument must go unread."""
_ROOM = Conditions(limits={"turns": 1000})


@dataclass(frozen=True, slots=True)
class _TriedMutant:
    """One mutant, and what came of it."""

    work: GoldenWork
    mutant: Mutant
    trial: Trial
    counts: frozenset[str]
    """Places that golden changed and the grade depends on."""

    @property
    def differs(self) -> bool:
        """True if it left what golden changed otherwise than golden, or said something else where that is all there is."""
        where = self.counts
        if not where and self.trial.trace and self.work.golden.trace:
            return self.trial.trace.answer.split() != self.work.golden.trace.answer.split()
        return bool(where & {*changes_between(self.work.golden, self.trial)})

    @property
    def survived(self) -> bool:
        """True if it got no less than golden."""
        return self.trial.reward is not None and self.trial.reward >= (self.work.golden.reward or 0.0) - EPSILON


async def look_at_mutants(case: Case) -> list[Finding]:
    """Wrong solutions get less than the right one, and every check has a part in it."""
    found = [
        work for work in await find_works(case, choose_tasks(case, TASKS, sandboxed=SANDBOXED)) if not case.may_idle(work.task)
    ]
    planned = [(work, mutant) for work in found for mutant in mutants(work, found, case.seed)]
    strange: list[tuple[GoldenWork, Play]] = [(work, play) for work in found for play in _other_plays(case, work)]
    plays = [(work, mutant.script) for work, mutant in planned] + strange
    trials = await case.take([request_for(case, work.task, play) for work, play in plays], _ROOM)
    counts = {task: frozenset(places) for task, places in (await find_graded_changes(case, found)).items()}
    tried = [
        _TriedMutant(work, mutant, trial, counts[work.task.id]) for (work, mutant), trial in zip(planned, trials, strict=False)
    ]
    # Doing a step twice is often harmless; it is played for the checks that should notice.
    wrong = [each for each in tried if not each.mutant.what.endswith("twice")]
    real = [each for each in wrong if each.differs and each.trial.reward is not None]
    everything: list[tuple[GoldenWork, Play, Trial]] = []
    for work in found:
        everything += [(work, IDLE, work.idle), (work, _GOLDEN, work.golden)]
    everything += [(work, play, trial) for (work, play), trial in zip(plays, trials, strict=True)]
    return [
        *_weak_grader_findings(case, real),
        *_unread_argument_findings(case, real),
        *await find_dead_checks(case, everything),
        *grading_crash(case, [(work.task, play, trial) for work, play, trial in everything], "mutants"),
    ]


def _other_plays(case: Case, work: GoldenWork) -> list[Play]:
    """Who else may move a check that mutants do not: a vandal, and one who rolls dice."""
    spoiling = destructive_script(work)
    return [*([spoiling] if spoiling else []), *([NamedPlay(name="random")] if case.description.tools else [])]


def _weak_grader_findings(case: Case, real: Sequence[_TriedMutant]) -> list[Finding]:
    survivors = [each for each in real if each.survived]
    if not real or len(real) - len(survivors) >= _GATE * len(real):
        return []
    score = 1 - len(survivors) / len(real)
    bad = score < _BAD and len(real) >= _ENOUGH
    first = min(survivors, key=lambda each: len(each.mutant.script.turns))
    kinds: dict[str, int] = defaultdict(int)
    for each in survivors:
        kinds[each.mutant.what.partition(": ")[2] or each.mutant.what.partition(",")[0]] += 1
    often = ", ".join(f"{what} ({count})" for what, count in sorted(kinds.items(), key=lambda item: -item[1])[:4])
    return [
        Finding(
            code="D02.weak",
            title=f"{len(survivors)} of {len(real)} wrong solutions get full marks (mutation score {score:.0%}): {often}",
            layer=Layer.SCRIPTED,
            probe="mutants",
            severity=Severity.HIGH if bad else Severity.LOW,
            standing=Confidence.CONFIRMED if bad else Confidence.LEAD,
            count=len(survivors),
            witness=Witness(
                inputs=witness_inputs(first.work.task, first.mutant.script),
                expected=f"less than golden's {first.work.golden.reward:g}: {first.mutant.what}",
                observed=first.trial.fate,
                seed=case.seed,
            ),
        )
    ]


def _unread_argument_findings(case: Case, real: Sequence[_TriedMutant]) -> list[Finding]:
    """Arguments that the agent is told and no check reads: whatever stands there and is taken, it is full marks."""
    tried: dict[tuple[str, str], list[_TriedMutant]] = defaultdict(list)
    for each in real:
        if each.mutant.asked is not None and not any(shown.error for shown in observations(each.trial)):
            tried[each.mutant.asked].append(each)
    found: list[Finding] = []
    for (tool, argument), wrong in tried.items():
        tasks = {each.work.task.id for each in wrong}
        if len(tasks) < _MIN_TASKS or not all(each.survived for each in wrong):
            continue
        first = min(wrong, key=lambda each: len(each.mutant.script.turns))
        found.append(
            Finding(
                code="D02.unread",
                title=f"another `{argument}` of `{tool}` than was asked for gets full marks, on all {len(tasks)} tasks tried",
                layer=Layer.SCRIPTED,
                probe="mutants",
                severity=Severity.HIGH,
                standing=Confidence.CONFIRMED,
                count=len(tasks),
                witness=Witness(
                    inputs=witness_inputs(first.work.task, first.mutant.script),
                    expected=f"less than golden's {first.work.golden.reward:g}: {first.mutant.what}",
                    observed=first.trial.fate,
                    seed=case.seed,
                ),
                fix=f"compare what `{argument}` left in the world with what was asked for",
            )
        )
    return found


PROBES = (Probe("mutants", Layer.SCRIPTED, ("D02", "D09", "D21"), look_at_mutants, needs_golden),)
