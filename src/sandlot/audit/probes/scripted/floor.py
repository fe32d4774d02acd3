"""Agents that skip the task (idle, chat, plant files, act at random) must not score above the floor."""

from collections import defaultdict
from collections.abc import Mapping, Sequence

import msgspec

from sandlot.audit.case import IDLE, Case, Probe
from sandlot.audit.finding import Confidence, Finding, Layer, Severity
from sandlot.audit.probes.likeness import EPSILON, changes_between, opening_text
from sandlot.audit.probes.plays import SURE, choose_tasks, request_for
from sandlot.audit.probes.scripted.attacks import (
    Attack,
    carried_change,
    every_line_attacks,
    file_attacks,
    one_act_per_turn,
    partial_attacks,
    word_attacks,
)
from sandlot.audit.probes.scripted.earning import UnearnedReward, grading_crash, missing_work, unearned_finding
from sandlot.audit.probes.scripted.reach import GoldenWork, find_works_to_do
from sandlot.audit.reason import Reason, declared
from sandlot.audit.subject import Call, NamedPlay, Say, Take, Trial
from sandlot.core.task import Task
from sandlot.core.types import Role

_MANY, _SOME, _FEW = SURE, 16, 4
"""Tasks per probe: with one short trial each, with several, with several in a sandbox."""
_DICE = 3
_HALF = 0.5
_WHOLE = frozenset({"D02.hardcode", "D02.enumerate"})
"""Only full marks count here; part of the points may be fair."""
_LUCKY = 0.2
"""A larger share of tasks solved by random calls is not luck."""


# -- doing nothing -----------------------------------------------------------------------------------------------------


async def _look_at_idling(case: Case) -> list[Finding]:
    """An agent that does nothing stays at the floor."""
    idle = await case.idle()
    tasks = [task for task in case.tasks if not case.may_idle(task)]
    works = await _golden_works(case, tasks)
    earned = [
        UnearnedReward(task, IDLE, idle[task.id], case.floor, _reason(works, task, idle[task.id]))
        for task in tasks
        if earned_more_than(idle[task.id], case.floor)
    ]
    abstaining = await _tasks_left_alone(case)
    unearned = [each for each in earned if each.task.id not in abstaining]
    part = [each for each in earned if each.task.id in abstaining]
    broken = grading_crash(case, [(task, IDLE, idle[task.id]) for task in case.tasks])
    title = "an agent that does nothing earns points"
    paid = [unearned_finding(case, "D02.noop", title, unearned, num_tasks=len(tasks))] if unearned else []
    if part:
        title = "an agent that does nothing earns part of the points on tasks where the golden solution changes nothing either"
        fix = "if doing nothing is right on these tasks, declare it: `noop_is_correct` in `audit.toml`"
        found = unearned_finding(case, "D02.noop", title, part, num_tasks=len(tasks), fix=fix)
        paid.append(msgspec.structs.replace(found, severity=Severity.LOW, standing=Confidence.LEAD))
    return paid + broken


async def _tasks_left_alone(case: Case) -> set[str]:
    """Tasks where golden changes nothing and is paid for its answer, in an environment where it acts on other tasks."""
    golden, idle = await case.golden(), await case.idle()
    passed = {task: trial for task, trial in golden.items() if trial.passed}
    alone = {task for task, trial in passed.items() if not changes_between(idle[task], trial)}
    return {task for task in alone if not idle[task].passed} if len(alone) < len(passed) else set()


async def _golden_works(case: Case, tasks: Sequence[Task]) -> dict[str, GoldenWork]:
    """Golden's work on each of the tasks, to compare with."""
    golden, idle = await case.golden(), await case.idle()
    return {task.id: GoldenWork(task, golden[task.id], idle[task.id]) for task in tasks if task.id in golden}


def _reason(works: Mapping[str, GoldenWork], task: Task, trial: Trial) -> Reason | None:
    return missing_work(works[task.id], trial) if task.id in works else None


def earned_more_than(trial: Trial, allowed: float) -> bool:
    """True if the reward is above what is allowed."""
    return trial.reward is not None and trial.reward > allowed + EPSILON


# -- words and files ---------------------------------------------------------------------------------------------------


async def _look_at_words(case: Case) -> list[Finding]:
    """Words without work earn nothing."""
    tasks = [task for task in choose_tasks(case, _MANY, sandboxed=8) if not case.may_idle(task)]
    idle = await case.idle()
    says = await _num_asked(case)
    claims = await _claims(case)
    attacks = {task.id: word_attacks(opening_text(idle[task.id]), says) + claims for task in tasks}
    return await _try_attacks(case, tasks, attacks)


async def _num_asked(case: Case) -> int:
    """The largest number of turns of a golden solution that only talks; else 1."""
    turns = [trial.trace.num_turns for trial in (await case.golden()).values() if trial.trace]
    return max(turns, default=1) if case.description.has_user and not case.description.tools else 1


async def _claims(case: Case) -> list[Attack]:
    """The golden solution's final answer, if it is the same for all tasks and so carries no information."""
    golden = [trial for trial in (await case.golden()).values() if trial.trace and trial.passed]
    said = {trial.trace.answer for trial in golden if trial.trace}
    asked = {opening_text(trial) for trial in golden}
    called = any(node.message.role is Role.TOOL for trial in golden if trial.trace for node in trial.trace.nodes)
    if len(said) != 1 or len(asked) < 3 or not called or not (claim := said.pop()):
        return []
    title = "claiming to be done without a single tool call earns points"
    return [Attack("D02.claim", title, one_act_per_turn("claim", [Say(claim)]), "neutral")]


async def _look_at_planting(case: Case) -> list[Finding]:
    """Files that change what is run or compared in grading earn nothing."""
    found = await find_works_to_do(case, _SOME, _FEW)
    attacks = {work.task.id: [*file_attacks(work), *every_line_attacks(work, found)] for work in found}
    return await _try_attacks(case, [work.task for work in found], attacks)


async def _try_attacks(case: Case, tasks: Sequence[Task], attacks: dict[str, list[Attack]]) -> list[Finding]:
    """Play every attack on every task; one finding per code that earned something."""
    idle = await case.idle()
    pairs = [(task, attack) for task in tasks for attack in attacks[task.id]]
    trials = await case.take([request_for(case, task, attack.script) for task, attack in pairs])
    rewards = {(task.id, attack.script.name): trial.reward or 0.0 for (task, attack), trial in zip(pairs, trials, strict=True)}
    works = await _golden_works(case, tasks)
    earned: dict[str, list[tuple[Attack, UnearnedReward]]] = defaultdict(list)
    for (task, attack), trial in zip(pairs, trials, strict=True):
        allowed = max(case.floor, idle[task.id].reward or 0.0, rewards.get((task.id, attack.baseline), 0.0))
        if earned_more_than(trial, allowed) and (attack.code not in _WHOLE or trial.passed):
            reason = attack.reason or _reason(works, task, trial)
            earned[attack.code].append((attack, UnearnedReward(task, attack.script, trial, allowed, reason)))
    return [
        unearned_finding(case, code, each[0][0].title, [one for _, one in each], num_tasks=len(tasks))
        for code, each in earned.items()
        if code != "D02.echo" or _is_generous([one for _, one in each], len(tasks))
    ]


def _is_generous(earned: Sequence[UnearnedReward], num_tasks: int) -> bool:
    """True if repeating the prompt gets full marks on some task, or half marks on half of them; less may be fair."""
    half = {each.task.id for each in earned if each.reward >= _HALF}
    return any(each.trial.passed for each in earned) or len(half) >= _HALF * num_tasks


# -- parts of the solution ---------------------------------------------------------------------------------------------


async def _look_at_shortcuts(case: Case) -> list[Finding]:
    """Part of the golden solution never gets full marks while the rest is not done."""
    found = await find_works_to_do(case, _SOME, _FEW)
    pairs = [(work, attack) for work in found for attack in partial_attacks(work)]
    trials = await case.take([request_for(case, work.task, attack.script) for work, attack in pairs])
    earned: dict[str, list[tuple[Attack, UnearnedReward]]] = defaultdict(list)
    for (work, attack), trial in zip(pairs, trials, strict=True):
        if trial.passed and _left_undone(work, attack, trial):
            reason = missing_work(work, trial)
            earned[attack.code].append((attack, UnearnedReward(work.task, attack.script, trial, case.floor, reason)))
    return [
        unearned_finding(case, code, each[0][0].title, [one for _, one in each], num_tasks=len(found))
        for code, each in earned.items()
    ]


def _left_undone(work: GoldenWork, attack: Attack, trial: Trial) -> bool:
    """True if part of golden's work is missing: what an omitted call would have written, or a change to an existing file."""
    undone = work.undone(trial)
    if attack.code == "D02.forged-report":
        return any(where.startswith("state.") or _is_plain(where.removeprefix("files."), work) for where in undone)
    played = [act for turn in attack.script.turns for act in turn if isinstance(act, Call)]
    omitted = [call for call in work.calls if call not in played]
    before = work.before
    return any(carried_change(call, undone, before) for call in omitted)


def _is_plain(path: str, work: GoldenWork) -> bool:
    """True for an ordinary file that setup made, not a hidden one of git or an interpreter."""
    return path in work.files and not any(step.startswith((".", "__")) for step in path.split("/"))


# -- random calls, and the author's adversaries -------------------------------------------------------------------------


async def _look_at_random_calls(case: Case) -> list[Finding]:
    """Random calls that fit the schemas solve no more tasks than luck would."""
    tasks = [task for task in choose_tasks(case, _SOME, sandboxed=_FEW) if not case.may_idle(task)]
    play = NamedPlay(name="random")
    trials = await case.take([Take(task=task.id, play=play, seed=case.seed + turn) for task in tasks for turn in range(_DICE)])
    earned = [
        UnearnedReward(tasks[place // _DICE], play, trial, case.floor) for place, trial in enumerate(trials) if trial.passed
    ]
    if len({each.task.id for each in earned}) < max(3, _LUCKY * len(tasks)):
        return []
    return [unearned_finding(case, "D14.random", "random tool calls solve tasks", earned, num_tasks=len(tasks))]


async def _look_at_own(case: Case) -> list[Finding]:
    """The author's adversaries stay at the floor."""
    tasks = [task for task in choose_tasks(case, _SOME, sandboxed=_FEW) if not case.may_idle(task)]
    pairs = [(task, NamedPlay(name=name)) for name in case.description.adversaries for task in tasks]
    trials = await case.take([request_for(case, task, play) for task, play in pairs])
    found: list[Finding] = []
    for name in case.description.adversaries:
        earned = [
            UnearnedReward(task, play, trial, case.floor, declared(f"the author wrote `{name}` as an adversary"))
            for (task, play), trial in zip(pairs, trials, strict=True)
            if play.name == name and earned_more_than(trial, case.floor)
        ]
        if earned:
            title = f"the author's adversary `{name}` earns points"
            found.append(unearned_finding(case, "D02.adversary", title, earned, num_tasks=len(tasks)))
    return found


def needs_golden(case: Case) -> str | None:
    """Why a probe that starts from the golden solution does not apply."""
    if case.description.needs_judge and case.judge is None:
        return "a judge grades it, and no judge was given"
    return None if case.description.has_golden else "there is no golden solution"


def needs_tools(case: Case) -> str | None:
    """Why a probe that calls tools does not apply."""
    return None if case.description.tools else case.description.unlisted or "there are no tools"


def needs_both(case: Case) -> str | None:
    """Why a probe that replays golden calls does not apply."""
    return needs_tools(case) or needs_golden(case)


def _needs_own(case: Case) -> str | None:
    return None if case.description.adversaries else "the author wrote no adversaries"


PROBES = (
    Probe("does-nothing", Layer.SCRIPTED, ("D02", "D09"), _look_at_idling),
    Probe("empty-words", Layer.SCRIPTED, ("D02",), _look_at_words),
    Probe("planted-files", Layer.SCRIPTED, ("D02",), _look_at_planting, needs_both),
    Probe("shortcuts", Layer.SCRIPTED, ("D02",), _look_at_shortcuts, needs_both),
    Probe("random-calls", Layer.SCRIPTED, ("D14",), _look_at_random_calls, needs_tools),
    Probe("own-adversaries", Layer.SCRIPTED, ("D02",), _look_at_own, _needs_own),
)
