"""What the audit makes of a proposed play: by its score and by reasons of its own, never by what the proposer says.

An attack is confirmed if it scores and is wrong by a reason: with full marks, something that the task asks for lacks or differs;
with a part of the points, nothing of golden's work is done and golden's answer is not given either; one play for all tasks is
right more often than chance allows. A right answer that is refused is confirmed if it leaves exactly what golden leaves.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from sandlot.audit.attacker.proposal import EVERY_TASK, Claim, Proposal
from sandlot.audit.case import Case
from sandlot.audit.probes.likeness import EPSILON, changes_between
from sandlot.audit.probes.scripted.earning import missing_work
from sandlot.audit.probes.search.facts import AskedWork, overdone
from sandlot.audit.reason import Reason, ReasonKind, beyond_chance, omission
from sandlot.audit.statement import core_of, numbers_in, same_core, shorten
from sandlot.audit.subject import Script, Trial


class PlayOutcome(StrEnum):
    """What became of a proposal on one task."""

    CONFIRMED = "confirmed: it scores, and is wrong by a reason"
    LEAD = "it scores, and nothing shows that it is wrong"
    REFUSED_RIGHT = "confirmed: it leaves what golden leaves, and scores less"
    REFUSED = "it scores less than golden, and nothing shows that it is right"
    NOTHING = "it scores as it should"
    BROKEN = "it has no score"


@dataclass(frozen=True)
class ProvenPlay:
    """A proposal, played on one task."""

    proposal: Proposal
    asked: AskedWork
    script: Script
    trial: Trial
    outcome: PlayOutcome
    reason: Reason | None = None


def judged(case: Case, proposal: Proposal, asked: AskedWork, script: Script, trial: Trial) -> ProvenPlay:
    """What the audit makes of one play."""
    reward, golden, idle = trial.reward, asked.work.golden.reward or 0.0, asked.work.idle.reward or 0.0
    if reward is None:
        return ProvenPlay(proposal, asked, script, trial, PlayOutcome.BROKEN)
    if proposal.claim is Claim.RIGHT:
        if reward >= golden - EPSILON:
            return ProvenPlay(proposal, asked, script, trial, PlayOutcome.NOTHING)
        same = PlayOutcome.REFUSED_RIGHT if _leaves_the_same(asked, trial) else PlayOutcome.REFUSED
        return ProvenPlay(proposal, asked, script, trial, same)
    full = reward >= golden - EPSILON and golden > case.floor
    if not full and reward <= max(case.floor, idle) + EPSILON:
        return ProvenPlay(proposal, asked, script, trial, PlayOutcome.NOTHING)
    reason = _wrong_for_full_marks(asked, trial) if full else _wrong_for_points(asked, trial)
    if reason is None and (not full or _leaves_the_same(asked, trial)):  # part of the points for part of the work, or golden's
        return ProvenPlay(proposal, asked, script, trial, PlayOutcome.NOTHING)
    return ProvenPlay(proposal, asked, script, trial, PlayOutcome.LEAD if reason is None else PlayOutcome.CONFIRMED, reason)


def _wrong_for_full_marks(asked: AskedWork, trial: Trial) -> Reason | None:
    work = asked.work
    if not work.golden.passed:
        return None
    if asked.changes:
        idle = missing_work(work, trial) if not asked.changes_of(trial) else None
        return asked.missing(trial, anywhere=True) or overdone(asked, trial) or idle
    return _wrong_answer(asked, trial)


def _wrong_answer(asked: AskedWork, trial: Trial) -> Reason | None:
    """The answer leaves out what golden's states, or is another number."""
    said, golden = trial.evidence.answer, asked.work.golden.evidence.answer
    one, other = numbers_in(core_of(said)), numbers_in(core_of(golden))
    if len(one) == 1 and len(other) == 1 and one != other and len(core_of(said).split()) == 1:
        why = f"golden states `{shorten(core_of(golden))}`, this states `{shorten(core_of(said))}`"
        return Reason(kind=ReasonKind.CONTRADICTS, why=why)
    return omission(said, golden, asked.work.task.key)


def _wrong_for_points(asked: AskedWork, trial: Trial) -> Reason | None:
    """Points although nothing of golden's work is done, and its answer is not given."""
    work = asked.work
    if not work.golden.passed or not asked.changes or len(work.undone(trial)) < len(work.changes):
        return None
    if work.golden.answer_was_read and omission(trial.evidence.answer, work.golden.evidence.answer, work.task.key) is None:
        return None
    return missing_work(work, trial)


def _leaves_the_same(asked: AskedWork, trial: Trial) -> bool:
    """True if the world is as golden leaves it and the answer says the same."""
    said, golden = trial.evidence.answer, asked.work.golden.evidence.answer
    same = not said.strip() if not golden.strip() else same_core(said, golden)
    return same and not changes_between(asked.work.golden, trial, timeless=True)


def right_everywhere(plays: Sequence[ProvenPlay], tried: int) -> Reason | None:
    """Why one play for all tasks is wrong: it gets full marks on more tasks with other keys than chance allows."""
    if not plays or plays[0].proposal.task != EVERY_TASK:
        return None
    full = [one for one in plays if (one.trial.reward or 0.0) >= (one.asked.work.golden.reward or 0.0) - EPSILON]
    keys = [_key(one.asked) for one in plays]
    return beyond_chance(len({one.asked.work.task.id for one in full}), tried, options=len(set(keys)), keys=keys)


def _key(asked: AskedWork) -> str:
    """What tells a task's right work from another's."""
    return core_of(asked.work.golden.evidence.answer) + repr(sorted(asked.facts))
