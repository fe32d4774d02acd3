"""Neighbours: concurrent rollouts in one process give the same results as rollouts one by one."""

from collections.abc import Sequence

from sandlot.audit.case import IDLE, Case, Probe, script_of
from sandlot.audit.finding import Finding, Layer
from sandlot.audit.probes.differential.comparing import difference_finding, differing_trials, foreign_canaries
from sandlot.audit.probes.differential.resets import differs_by_chance
from sandlot.audit.probes.plays import GOLDEN, choose_tasks, request_for
from sandlot.audit.probes.tour import free_texts
from sandlot.audit.subject import Call, Conditions, Say, Script, Take, Trial
from sandlot.core.task import Task

_TASKS, _SANDBOXED = 24, 3
_AT_ONCE = (8, 32)
_COPIES = 2


async def _look_at_neighbours(case: Case) -> list[Finding]:
    """Concurrent rollouts do not affect each other."""
    tasks = choose_tasks(case, _TASKS, sandboxed=_SANDBOXED)
    requests = await _mixed_requests(case, tasks)
    crowds = (4,) if case.description.image is not None else _AT_ONCE
    alone = await case.take(requests)
    for at_once in crowds:
        conditions = Conditions(at_once=at_once, shuffled=at_once)
        beside = await case.take(requests, conditions)
        found = [
            *foreign_canaries(case, requests, beside, "canary-", len(_canary(0))),
            *differing_trials(case, requests, alone, beside),
        ]
        if found and not await _differs_by_order(case, requests, alone, at_once) and not await differs_by_chance(case, found[0]):
            title = f"{at_once} concurrent rollouts give different results than the same rollouts one by one"
            expected = "the same results as one by one"
            return [difference_finding(case, "D18.neighbours", title, found, expected=expected, conditions=conditions)]
    return []


async def _differs_by_order(case: Case, requests: Sequence[Take], alone: Sequence[Trial], seed: int) -> bool:
    """True if the order alone makes a difference; `shuffled-order` reports that."""
    return bool(differing_trials(case, requests, alone, await case.take(requests, Conditions(shuffled=seed))))


async def _mixed_requests(case: Case, tasks: Sequence[Task]) -> list[Take]:
    """For each task idle, golden, and golden with a canary word of its own; all twice."""
    golden = await case.golden()
    plays: list[Take] = []
    for copy in range(_COPIES):
        for number, task in enumerate(tasks):
            plays.append(request_for(case, task, IDLE))
            if task.id in golden:
                marked = _with_canary(case, golden[task.id], _canary(copy * len(tasks) + number))
                plays += [request_for(case, task, play) for play in (GOLDEN, marked)]
    return plays


def _canary(number: int) -> str:
    """A unique word."""
    return f"canary-{number:04}-5e1d"


def _with_canary(case: Case, golden: Trial, word: str) -> Script:
    """Golden's calls with the canary in free texts, and as the final message."""
    script = script_of(golden, "marked")
    texts = {spec.name: free_texts(spec) for spec in case.description.tools}
    turns: list[tuple[Call, ...]] = []
    for turn in script.turns:
        calls = [act for act in turn if isinstance(act, Call)]
        if calls and case.description.image is None:
            turns.append(
                tuple(Call(call.tool, _marked_arguments(call, word, texts.get(call.tool, set[str]()))) for call in calls)
            )
    return Script(name="marked", turns=(*turns, (Say(word),)))


def _marked_arguments(call: Call, word: str, free: set[str]) -> dict[str, object]:
    """The arguments with the canary in the last free text, because the first is often an id."""
    names = [name for name, value in call.arguments.items() if name in free and isinstance(value, str)]
    return {**call.arguments, names[-1]: word} if len(names) > 1 else dict(call.arguments)


PROBES = (Probe("neighbours", Layer.DIFFERENTIAL, ("D18",), _look_at_neighbours, without_golden=True),)
