"""Mutation score: the share of wrong solutions that the grader notices.

Mutants that leave the same result as golden do not count; all others must score less than golden. Golden is played twice: what
differs between the two, such as the time that an office program writes into a file, is no difference. Over the same trials each
check must vary: a check with one verdict for golden, mutant, destructive and idle agents decides nothing.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from sandlot.audit.case import IDLE, Case, Probe
from sandlot.audit.finding import Finding, Layer, Severity, Witness, make_finding
from sandlot.audit.probes.likeness import EPSILON, observations
from sandlot.audit.probes.plays import GOLDEN, MANY_TURNS, request_for, witness_of
from sandlot.audit.probes.scripted.attacks import destructive_script
from sandlot.audit.probes.scripted.criteria import find_dead_checks
from sandlot.audit.probes.scripted.earning import grading_crash
from sandlot.audit.probes.scripted.floor import needs_golden
from sandlot.audit.probes.scripted.graded import find_graded_changes
from sandlot.audit.probes.scripted.mutants import Mutant, mutants
from sandlot.audit.probes.scripted.reach import GoldenWork, find_works_to_do
from sandlot.audit.probes.scripted.repeats import real_changes
from sandlot.audit.reason import Reason, ReasonKind, difference
from sandlot.audit.subject import NamedPlay, Play, Trial

_TASKS, _SANDBOXED = 16, 2
_GATE = 0.9
_BAD = 0.5
"""Below this mutation score most wrong solutions are not noticed."""
_ENOUGH = 10
"""Fewest mutants for a reliable share."""
_MIN_TASKS = 4
"""Fewest tasks on which the same argument must go unchecked."""


@dataclass(frozen=True, slots=True)
class _TriedMutant:
    """One mutant and its trial."""

    work: GoldenWork
    mutant: Mutant
    trial: Trial
    counts: frozenset[str]
    """Places that golden changed and that the grade depends on."""
    again: Trial
    """Golden, played a second time."""

    @property
    def reason(self) -> Reason | None:
        """Why it is wrong: its result differs from golden's where it counts, or its answer where golden changes nothing."""
        if not self.counts and self.trial.trace and self.work.golden.trace:
            answer, golden = self.trial.trace.answer, self.work.golden.trace.answer
            return None if answer.split() == golden.split() else difference(answer, golden)
        places = sorted(self.counts & {*real_changes(self.work.golden, self.again, self.trial)})
        why = f"with a step wrong ({self.mutant.what}), `{places[0]}` is not as golden leaves it" if places else ""
        return Reason(kind=ReasonKind.CONTRADICTS, why=why) if places else None

    @property
    def survived(self) -> bool:
        """True if it scores no less than golden."""
        return self.trial.reward is not None and self.trial.reward >= (self.work.golden.reward or 0.0) - EPSILON


async def _look_at_mutants(case: Case) -> list[Finding]:
    """Wrong solutions score less than the right one, and every check varies."""
    found = await find_works_to_do(case, _TASKS, _SANDBOXED)
    planned = [(work, mutant) for work in found for mutant in mutants(work, found, case.seed)]
    strange: list[tuple[GoldenWork, Play]] = [(work, play) for work in found for play in _other_plays(case, work)]
    plays = [(work, mutant.script) for work, mutant in planned] + strange
    trials = await case.take([request_for(case, work.task, play) for work, play in plays], MANY_TURNS)
    repeated = await case.take([request_for(case, work.task, work.script) for work in found], MANY_TURNS)
    again = {work.task.id: trial for work, trial in zip(found, repeated, strict=True)}
    counts = {task: frozenset(places) for task, places in (await find_graded_changes(case, found)).items()}
    tried = [
        _TriedMutant(work, mutant, trial, counts[work.task.id], again[work.task.id])
        for (work, mutant), trial in zip(planned, trials, strict=False)
    ]
    # A step done twice is often harmless; it is played only so that checks can vary.
    wrong = [each for each in tried if not each.mutant.what.endswith("twice")]
    real = [each for each in wrong if each.reason is not None and each.trial.reward is not None]
    everything: list[tuple[GoldenWork, Play, Trial]] = []
    for work in found:
        everything += [(work, IDLE, work.idle), (work, GOLDEN, work.golden)]
    everything += [(work, play, trial) for (work, play), trial in zip(plays, trials, strict=True)]
    return [
        *_weak_grader_findings(case, real),
        *_unread_argument_findings(case, real),
        *await find_dead_checks(case, everything),
        *grading_crash(case, [(work.task, play, trial) for work, play, trial in everything]),
    ]


def _other_plays(case: Case, work: GoldenWork) -> list[Play]:
    """Plays that may change a check that mutants do not: destroy everything, act at random."""
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
    title = f"{len(survivors)} of {len(real)} wrong solutions get full marks (mutation score {score:.0%}): {often}"
    witness = _survivor_witness(case, first)
    severity = Severity.HIGH if bad else Severity.LOW
    reason = first.reason
    return [make_finding("D02.weak", title, witness, count=len(survivors), severity=severity, sure=bad, reason=reason)]


def _survivor_witness(case: Case, tried: _TriedMutant) -> Witness:
    expected = f"less than golden's {tried.work.golden.reward:g}: {tried.mutant.what}"
    return witness_of(case, tried.work.task, tried.mutant.script, expected, tried.trial.fate)


def _unread_argument_findings(case: Case, real: Sequence[_TriedMutant]) -> list[Finding]:
    """Arguments that the prompt gives and no check reads: any accepted value gets full marks."""
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
        title = f"a wrong `{argument}` of `{tool}` gets full marks, on all {len(tasks)} tasks tried"
        fix = f"check the value that `{argument}` left in the world against the task"
        witness = _survivor_witness(case, first)
        found.append(make_finding("D02.unread", title, witness, count=len(tasks), fix=fix, reason=first.reason))
    return found


PROBES = (Probe("mutants", Layer.SCRIPTED, ("D02", "D09", "D21"), _look_at_mutants, needs_golden),)
