"""Search check by check: a check whose points no wrong call ever loses.

Golden is stopped after every call. The first stop at which a check has golden's value names the call that earns it. All
arguments of that call are then given wrong values; if the check does not lose by any of them, so are those of all earlier calls.
A check that still does not lose asks only that calls are made. It is a lead: another check may read what this one does not.
Where none does, `search-plays` confirms it.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from sandlot.audit.case import Case, Probe
from sandlot.audit.finding import Finding, Layer, Severity, make_finding
from sandlot.audit.probes.likeness import EPSILON, observations
from sandlot.audit.probes.plays import MANY_TURNS, request_for, witness_of
from sandlot.audit.probes.scripted.floor import needs_both
from sandlot.audit.probes.scripted.reach import GoldenWork
from sandlot.audit.probes.search.depth import depth_of
from sandlot.audit.probes.search.edits import PlayEdit, edited, edits_of
from sandlot.audit.probes.search.facts import AskedWork, find_asked
from sandlot.audit.subject import Call, Script, Trial
from sandlot.core.groups import group_by_key

_TASKS, _SANDBOXED = 4, 1
_STOPS = 12
"""Golden is stopped at most so often."""
_ENOUGH = 4
"""Fewest wrong plays, on two tasks, by which a check must not lose."""


@dataclass(frozen=True, slots=True)
class _Earned:
    """A check of a task, and the turn of golden's that earns it."""

    asked: AskedWork
    check: str
    turn: int


_NOTHING = ("as zero", "emptied")
"""Edits that leave a call as good as not made."""

_WrongPlays = dict[tuple[int, int], list[tuple[Script, Trial]]]
"""By task and changed turn."""


async def _look_at_checks(case: Case) -> list[Finding]:
    """Every check loses by a wrong value in the call that earns it."""
    asked = await find_asked(case, depth_of(case).tasks(_TASKS), depth_of(case).tasks(_SANDBOXED))
    works = [each.work for each in asked]
    earned = await _earning_turns(case, asked)
    wrong = await _wrong_plays(case, works, dict.fromkeys((each.asked, each.turn) for each in earned))
    still = [each for each in earned if not _loses(each, wrong)]
    earlier = [(each.asked, turn) for each in still for turn in range(each.turn)]
    wrong |= await _wrong_plays(case, works, dict.fromkeys(one for one in earlier if (id(one[0]), one[1]) not in wrong))
    return _findings(case, earned, wrong)


async def _wrong_plays(case: Case, works: Sequence[GoldenWork], turns: Collection[tuple[AskedWork, int]]) -> _WrongPlays:
    """Plays with a wrong value in a call of these turns that the tool accepts, where something that is asked for differs."""
    plans = [(task, turn, edit) for task, turn in turns for edit in _wrong_edits(case, task, turn, works)]
    scripts = [edited(task.work.script, [edit]) for task, _, edit in plans]
    trials = await case.take(
        [request_for(case, task.work.task, script) for (task, _, _), script in zip(plans, scripts, strict=True)], MANY_TURNS
    )
    wrong: _WrongPlays = {(id(task), turn): [] for task, turn in turns}
    for (task, turn, _), script, trial in zip(plans, scripts, trials, strict=True):
        if not _new_error(task.work, trial) and task.missing(trial) is not None:
            wrong[id(task), turn].append((script, trial))
    return wrong


def _loses(each: _Earned, wrong: _WrongPlays) -> bool:
    """True if the check loses by a wrong play."""
    golden = _values(each.asked.work.golden)[each.check]
    plays = [play for (task, turn), plays in wrong.items() if task == id(each.asked) and turn <= each.turn for play in plays]
    return any(_values(trial).get(each.check, golden) < golden - EPSILON for _, trial in plays)


async def _earning_turns(case: Case, asked: Sequence[AskedWork]) -> list[_Earned]:
    """For each check with points that an idle agent does not get, the turn at which it reaches golden's value."""
    stops = [(each, stop) for each in asked for stop in _stops(each.work)]
    scripts = [Script(name="stopped", turns=each.work.script.turns[: stop + 1]) for each, stop in stops]
    trials = await case.take(
        [request_for(case, each.work.task, script) for (each, _), script in zip(stops, scripts, strict=True)], MANY_TURNS
    )
    found: dict[tuple[int, str], _Earned] = {}
    for (each, stop), trial in zip(stops, trials, strict=True):
        golden, idle = _values(each.work.golden), _values(each.work.idle)
        for check, value in _values(trial).items():
            whole = value >= golden.get(check, 0.0) - EPSILON
            if whole and golden.get(check, 0.0) > idle.get(check, 0.0) + EPSILON:
                found.setdefault((id(each), check), _Earned(each, check, stop))
    return list(found.values())


def _stops(work: GoldenWork) -> list[int]:
    """The turns with calls, evenly chosen if there are many."""
    turns = [at for at, turn in enumerate(work.script.turns) if isinstance(turn[0], Call)]
    if len(turns) <= _STOPS:
        return turns
    return sorted({turns[place * (len(turns) - 1) // (_STOPS - 1)] for place in range(_STOPS)})


def _wrong_edits(case: Case, task: AskedWork, turn: int, works: Sequence[GoldenWork]) -> list[PlayEdit]:
    others = [work for work in works if work.task.id != task.work.task.id]
    edits = edits_of(task.work, others, case.description.tools, case.seed, shells=case.shells)
    return [edit for edit in edits if edit.place[0] == turn and "." in edit.subject and edit.kind not in _NOTHING][:_STOPS]


def _new_error(work: GoldenWork, trial: Trial) -> bool:
    """True if a call was refused that golden's was not: then it was as good as left out."""
    return sum(shown.error for shown in observations(trial)) > sum(shown.error for shown in observations(work.golden))


def _values(trial: Trial) -> dict[str, float]:
    """The value of each check with points."""
    return {check.id: check.value for check in trial.score.checks if check.worth > 0} if trial.score else {}


def _findings(case: Case, earned: Sequence[_Earned], wrong: _WrongPlays) -> list[Finding]:
    seen = group_by_key(((each.asked.work.task.rubric, each.check), each) for each in earned)
    found: list[Finding] = []
    for (_, check), mine in sorted(seen.items(), key=lambda item: item[0]):
        plays = [(each, *play) for each in mine for play in wrong.get((id(each.asked), each.turn), ())]
        tasks = {each.asked.work.task.id for each, *_ in plays}
        if not any(_loses(each, wrong) for each in mine) and len(plays) >= _ENOUGH and len(tasks) > 1:
            found.append(_finding(case, check, plays))
    return found


def _finding(case: Case, check: str, plays: Sequence[tuple[_Earned, Script, Trial]]) -> Finding:
    each, script, trial = plays[0]
    work = each.asked.work
    tools = ", ".join(sorted({act.tool for act in work.script.turns[each.turn] if isinstance(act, Call)}))
    expected = f"less from `{check}` than golden gets, for some of {len(plays)} wrong calls of `{tools}`"
    return make_finding(
        "D21.unmoved",
        f"`{tools}` earns check `{check}`, and none of {len(plays)} wrong calls of it loses a point of that check",
        witness_of(case, work.task, script, expected, trial.fate),
        severity=Severity.LOW,
        sure=False,
        check=check,
        count=len({one.asked.work.task.id for one, *_ in plays}),
        fix="look whether the check asks for more than that the call is made; a wrong play as an adversary shows it",
    )


PROBES = (Probe("search-checks", Layer.SCRIPTED, ("D21",), _look_at_checks, needs_both),)
