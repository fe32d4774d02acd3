"""Search over plays: how far from golden can an agent go for the same score.

Every act of golden is left out, repeated, and given other values; the edits that cost nothing are made together, and the results
are compared with what the task asks for. A play is wrong by a reason if a value that the key or the prompt states, and that
golden leaves in the world, lacks there or is another one. What was found is made small.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace

from sandlot.audit.case import Case, Probe
from sandlot.audit.finding import Finding, Layer, Severity, make_finding
from sandlot.audit.probes.likeness import EPSILON, observations
from sandlot.audit.probes.plays import MANY_TURNS, request_for, witness_of
from sandlot.audit.probes.scripted.earning import missing_work
from sandlot.audit.probes.scripted.floor import needs_both
from sandlot.audit.probes.scripted.reach import GoldenWork
from sandlot.audit.probes.search.climbing import largest_free, smallest
from sandlot.audit.probes.search.depth import depth_of
from sandlot.audit.probes.search.edits import PlayEdit, edited, edits_of, together
from sandlot.audit.probes.search.facts import AskedWork, find_asked, foreign, overdone
from sandlot.audit.reason import Reason
from sandlot.audit.subject import Script, Trial

_TASKS, _SANDBOXED = 6, 2
_ROUNDS = 5
_MOST = 5
"""Findings of one kind of edit; the others are counted in the last."""


@dataclass(frozen=True)
class Climbed:
    """A task, played with edits of golden's play."""

    asked: AskedWork
    edits: tuple[PlayEdit, ...]
    script: Script
    trial: Trial
    reason: Reason | None = None

    @property
    def work(self) -> GoldenWork:
        """The task and golden's work."""
        return self.asked.work

    @property
    def free(self) -> bool:
        """True if it scores no less than golden."""
        return self.trial.reward is not None and self.trial.reward >= (self.work.golden.reward or 0.0) - EPSILON


async def _look_at_plays(case: Case) -> list[Finding]:
    """No play far from golden scores like it."""
    asked = await find_asked(case, depth_of(case).tasks(_TASKS), depth_of(case).tasks(_SANDBOXED))
    alone = await _play_each(case, asked)
    found = [each for each in alone if each.free and each.reason is not None]
    found += await _play_together(case, asked, alone)
    if len({each.work.golden.evidence.answer for each in asked if not each.changes}) < 2:  # the same words everywhere say nothing
        found = [one for one in found if one.asked.changes]
    return [*_findings(case, found, alone), *_excess(case, asked, alone)]


async def _play_each(case: Case, asked: Sequence[AskedWork]) -> list[Climbed]:
    """Golden with one edit at a time."""
    most = depth_of(case).trials_a_task(sandboxed=case.description.image is not None)
    planned: list[tuple[AskedWork, PlayEdit]] = []
    for each in asked:
        others = [other.work for other in asked if other is not each]
        edits = edits_of(each.work, others, case.description.tools, case.seed, shells=case.shells)
        planned += [(each, edit) for edit in edits[:most]]
    return await _played(case, [(each, (edit,)) for each, edit in planned])


async def _play_together(case: Case, asked: Sequence[AskedWork], alone: Sequence[Climbed]) -> list[Climbed]:
    """As many edits at once as stay free, where no single one is wrong by a reason; then only those that the reason needs."""
    found: list[Climbed] = []
    for each in asked:
        mine = [one for one in alone if one.asked is each and one.free]
        if any(one.reason is not None for one in mine):
            continue
        edits = together([one.edits[0] for one in mine if not _errors(one)])
        if len(edits) < 2:
            continue

        async def free(sets: Sequence[Sequence[PlayEdit]], each: AskedWork = each) -> list[bool]:
            return [one.free for one in await _played(case, [(each, tuple(edits)) for edits in sets])]

        async def shows(sets: Sequence[Sequence[PlayEdit]], each: AskedWork = each) -> list[bool]:
            played = await _played(case, [(each, tuple(edits)) for edits in sets])
            return [one.free and one.reason is not None for one in played]

        most = await largest_free(edits, free, rounds=_ROUNDS)
        if most and (await shows([most]))[0]:
            least = await smallest(most, shows, rounds=_ROUNDS)
            found += await _played(case, [(each, tuple(least))])
    return [one for one in found if one.free and one.reason is not None]


async def _played(case: Case, plans: Sequence[tuple[AskedWork, tuple[PlayEdit, ...]]]) -> list[Climbed]:
    scripts = [edited(each.work.script, edits) for each, edits in plans]
    requests = [request_for(case, each.work.task, script) for (each, _), script in zip(plans, scripts, strict=True)]
    trials = await case.take(requests, MANY_TURNS)
    played = [Climbed(each, edits, script, trial) for (each, edits), script, trial in zip(plans, scripts, trials, strict=True)]
    return [replace(one, reason=_reason(one)) for one in played]


def _reason(one: Climbed) -> Reason | None:
    """Why the play is wrong; None if nothing shows that."""
    if one.trial.reward is None:
        return None
    if not one.asked.changes:  # only golden's words count, if they are read
        return missing_work(one.work, one.trial) if one.work.golden.answer_was_read else None
    return one.asked.missing(one.trial) or overdone(one.asked, one.trial)


def _errors(one: Climbed) -> bool:
    return any(shown.error for shown in observations(one.trial))


def _findings(case: Case, found: Sequence[Climbed], tried: Sequence[Climbed]) -> list[Finding]:
    groups: dict[str, list[Climbed]] = defaultdict(list)
    for one in found:
        groups[_name(one)].append(one)
    num_tasks = len({one.work.task.id for one in tried})
    made = [_finding(case, each, num_tasks) for each in sorted(groups.values(), key=lambda each: -len(_tasks(each)))]
    return made[:_MOST]


def _excess(case: Case, asked: Sequence[AskedWork], alone: Sequence[Climbed]) -> list[Finding]:
    """A lead if other tasks' work beside golden's costs nothing. It is wrong only if the task wants nothing else changed."""
    beside = [
        replace(one, reason=reason)
        for one in alone
        if one.free and one.reason is None and one.edits[0].acts
        if (reason := foreign(one.asked, one.trial, [each for each in asked if each is not one.asked])) is not None
    ]
    if len(_tasks(beside)) < 2:
        return []
    first = min(beside, key=lambda one: (len(one.script.turns), one.work.task.id))
    title = f"the work of other tasks beside golden's costs nothing, on {len(_tasks(beside))} of {len(asked)} tasks"
    expected = f"less than golden's {first.work.golden.reward:g}, if nothing else may change: {first.edits[0].what}"
    return [
        make_finding(
            "D02.beside",
            title,
            witness_of(case, first.work.task, first.script, expected, first.trial.fate),
            severity=Severity.LOW,
            sure=False,
            count=len(_tasks(beside)),
            fix="compare the whole result with what it should be, not only the place that the task is about",
            reason=first.reason,
        )
    ]


def _name(one: Climbed) -> str:
    """What a finding is about: the tools of its edits."""
    return ", ".join(sorted({edit.subject.partition(".")[0] for edit in one.edits}))


def _kind(edit: PlayEdit) -> str:
    argument = edit.subject.partition(".")[2]
    return f"`{argument}` {edit.kind}" if argument else edit.kind


def _tasks(each: Sequence[Climbed]) -> set[str]:
    return {one.work.task.id for one in each}


def _finding(case: Case, each: Sequence[Climbed], num_tasks: int) -> Finding:
    first = min(each, key=lambda one: (len(one.edits), len(one.script.turns), one.work.task.id))
    num = len(_tasks(each))
    kinds = ", ".join(sorted({_kind(edit) for one in each for edit in one.edits}))
    what = " and ".join(edit.what for edit in first.edits)
    title = f"golden's calls of `{_name(first)}` can be wrong for full marks, on {num} of {num_tasks} tasks: {kinds}"
    golden = first.work.golden.reward or 0.0
    return make_finding(
        "D02.far",
        title,
        witness_of(case, first.work.task, first.script, f"less than golden's {golden:g}: {what}", first.trial.fate),
        severity=Severity.HIGH,
        sure=num > 1 or num_tasks == 1,
        count=num,
        fix="check the value that the task asks for where this left another one, or none",
        reason=first.reason,
        paid=first.trial.paid,
    )


PROBES = (Probe("search-plays", Layer.SCRIPTED, ("D02",), _look_at_plays, needs_both),)
