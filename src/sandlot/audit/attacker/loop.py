"""The loop: propose, run, learn from what became of it, propose. Budgeted in rounds, recorded, and replayable.

Plays run where rollouts run, with the tasks' own limits. What they show is decided by `confirming.py`; the witness of an attack
is made small. A replay of a record plays the same plays and writes the same record.
"""

from collections.abc import Sequence
from dataclasses import replace

from sandlot.audit.attacker.attacker import ATTACKER, AttackerRecord, AttackPlan, RecordedReply
from sandlot.audit.attacker.briefing import fate_of, next_briefing, opening_briefing
from sandlot.audit.attacker.confirming import PlayOutcome, ProvenPlay, judged, right_everywhere
from sandlot.audit.attacker.proposal import EVERY_TASK, Claim, Proposal, ReadReply, read_reply
from sandlot.audit.case import Case, Probe
from sandlot.audit.finding import Finding, Layer, Severity, make_finding
from sandlot.audit.probes.plays import choose_tasks, request_for, witness_of
from sandlot.audit.probes.scripted.earning import grading_crash
from sandlot.audit.probes.scripted.graded import find_graded_changes
from sandlot.audit.probes.scripted.reach import GoldenWork
from sandlot.audit.probes.search.climbing import smallest
from sandlot.audit.probes.search.depth import depth_of
from sandlot.audit.probes.search.facts import AskedWork, place_of
from sandlot.audit.subject import Script
from sandlot.core.errors import HarnessError, ModelError
from sandlot.core.groups import group_by_key
from sandlot.core.task import Task
from sandlot.core.trace import Message, text_message
from sandlot.core.types import Role

_TASKS = 6
"""Tasks that the attacker is shown; `*` is all of them."""
_SMALLER = 3
_ROUNDS = 4
_MOST = 12


async def _look_at_attacks(case: Case) -> list[Finding]:
    """Nothing that is proposed scores without the work."""
    plan = case.attack
    assert plan is not None
    tasks = [task for task in choose_tasks(case, _TASKS) if not case.may_idle(task)]
    asked = await _asked_works(case, tasks)
    plays = await _loop(case, plan, asked)
    return await _findings(case, plays, len(asked))


async def _asked_works(case: Case, tasks: Sequence[Task]) -> dict[str, AskedWork]:
    """Tasks to attack, with golden's work on each; without a golden solution nothing is known of them."""
    golden, idle = await case.golden(), await case.idle()
    works = [
        GoldenWork(task, golden.get(task.id, idle[task.id]), idle[task.id]) for task in tasks if idle[task.id].trace is not None
    ]
    graded = await find_graded_changes(case, [work for work in works if work.golden.passed])
    return {
        work.task.id: AskedWork(work, frozenset(map(place_of, graded[work.task.id])) if work.task.id in graded else None)
        for work in works
    }


async def _add_named(case: Case, asked: dict[str, AskedWork], read: ReadReply) -> None:
    """Tasks that were not shown, and that a proposal names."""
    named = {proposal.task for proposal in read.proposals}
    asked |= await _asked_works(case, [task for task in case.tasks if task.id in named and task.id not in asked])


async def _loop(case: Case, plan: AttackPlan, asked: dict[str, AskedWork]) -> list[ProvenPlay]:
    idle = {name: each.work.idle for name, each in asked.items()}
    tasks = [each.work.task for each in asked.values()]
    messages: list[Message] = opening_briefing(case, tasks, idle, code=plan.reads_code)
    record = AttackerRecord(plan.record)
    plays: list[ProvenPlay] = []
    for number in range(depth_of(case).rounds(_ROUNDS) if plan.rounds is None else plan.rounds):
        try:
            reply = await plan.attacker.propose(messages)
        except ModelError as error:
            record.keep(RecordedReply(error=str(error), kind=error.kind))
            if not number:
                raise HarnessError(f"the attacker failed: {error}") from error
            break
        if reply is None:
            break
        reply = reply.encode(errors="replace").decode()  # half characters cannot be stored
        record.keep(RecordedReply(reply=reply))
        read = read_reply(reply)
        await _add_named(case, asked, read)
        played = await _play(case, asked, read)
        plays += played
        fates = [
            fate_of(one.proposal.name, one.asked.work.task.id, one.trial, one.asked.work.golden.reward, one.outcome.value)
            for one in played
        ]
        unknown = [f"no task `{each.task[:80]}`" for each in read.proposals if not _tasks_of(each, asked)]
        messages += [text_message(Role.ASSISTANT, reply), next_briefing(fates, [*read.refused, *unknown])]
    return plays


def _tasks_of(proposal: Proposal, asked: dict[str, AskedWork]) -> list[AskedWork]:
    if proposal.task == EVERY_TASK:
        return list(asked.values())
    return [asked[proposal.task]] if proposal.task in asked else []


async def _play(case: Case, asked: dict[str, AskedWork], read: ReadReply) -> list[ProvenPlay]:
    planned = [(proposal, each, proposal.script) for proposal in read.proposals for each in _tasks_of(proposal, asked)]
    trials = await case.take([request_for(case, each.work.task, script) for _, each, script in planned])
    played = [
        judged(case, proposal, each, script, trial) for (proposal, each, script), trial in zip(planned, trials, strict=True)
    ]
    return [_by_chance(one, played) for one in played]


def _by_chance(one: ProvenPlay, played: Sequence[ProvenPlay]) -> ProvenPlay:
    """A play for all tasks that is right too often is wrong by that."""
    if one.outcome is not PlayOutcome.LEAD or one.proposal.task != EVERY_TASK:
        return one
    mine = [each for each in played if each.proposal is one.proposal and each.trial.reward is not None]
    reason = right_everywhere(mine, len(mine))
    return one if reason is None else replace(one, outcome=PlayOutcome.CONFIRMED, reason=reason)


# -- findings ------------------------------------------------------------------------------------------------------------------


async def _findings(case: Case, plays: Sequence[ProvenPlay], num_tasks: int) -> list[Finding]:
    found: list[Finding] = []
    reported = (PlayOutcome.CONFIRMED, PlayOutcome.REFUSED_RIGHT, PlayOutcome.LEAD, PlayOutcome.REFUSED)
    for outcome in reported:
        groups = group_by_key((one.proposal.name, one) for one in plays if one.outcome is outcome)
        found += [await _finding(case, each, num_tasks) for each in list(groups.values())[:_MOST]]
    return found + grading_crash(case, [(one.asked.work.task, one.script, one.trial) for one in plays])


async def _finding(case: Case, each: Sequence[ProvenPlay], num_tasks: int) -> Finding:
    first = min(each, key=lambda one: (len(one.script.turns), one.asked.work.task.id))
    attack = first.proposal.claim is Claim.ATTACK
    if first.outcome is PlayOutcome.CONFIRMED:
        first = await _made_small(case, first)
    work, golden = first.asked.work, first.asked.work.golden.reward or 0.0
    num = len({one.asked.work.task.id for one in each})
    what = " ".join(first.proposal.name.split())[:120]
    gains = "earns points" if attack else "is refused"
    expected = f"less than golden's {golden:g}" if attack else f"{golden:g}, as golden gets"
    return make_finding(
        "D02.proposed" if attack else "D15.proposed",
        f"the attacker's play `{what}` {gains} ({first.trial.reward:g} of {golden:g}, on {num} of {num_tasks} tasks)",
        witness_of(case, work.task, first.script, expected, first.trial.fate),
        severity=Severity.HIGH if first.outcome in {PlayOutcome.CONFIRMED, PlayOutcome.REFUSED_RIGHT} else Severity.LOW,
        sure=first.outcome in {PlayOutcome.CONFIRMED, PlayOutcome.REFUSED_RIGHT},
        task=work.task.id,
        count=num,
        reason=first.reason,
        paid=first.trial.paid if attack else (),
    )


async def _made_small(case: Case, one: ProvenPlay) -> ProvenPlay:
    """The same with fewer turns, as long as it stays confirmed by a reason of the same kind."""
    turns = list(enumerate(one.script.turns))
    known: dict[tuple[int, ...], ProvenPlay] = {}

    async def shows(sets: Sequence[Sequence[tuple[int, object]]]) -> list[bool]:
        kept = [tuple(at for at, _ in parts) for parts in sets]
        scripts = [Script(name="proposed", turns=tuple(one.script.turns[at] for at in places)) for places in kept]
        trials = await case.take([request_for(case, one.asked.work.task, script) for script in scripts])
        for places, script, trial in zip(kept, scripts, trials, strict=True):
            known[places] = judged(case, one.proposal, one.asked, script, trial)
        return [_same_kind(known[places], one) for places in kept]

    least = await smallest(turns, shows, rounds=_SMALLER)
    return known.get(tuple(at for at, _ in least), one)


def _same_kind(small: ProvenPlay, one: ProvenPlay) -> bool:
    same = small.reason is not None and one.reason is not None and small.reason.kind is one.reason.kind
    return same and (small.trial.reward or 0.0) >= (one.trial.reward or 0.0)


PROBE = Probe(
    ATTACKER,
    Layer.MODEL,
    ("D02", "D09", "D15"),
    _look_at_attacks,
    lambda case: None if case.attack else "no attacker was given",
    without_golden=True,
)
