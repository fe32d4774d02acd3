"""Resets: a rollout does not depend on earlier rollouts in the same process.

The same trials are played first, again after rollouts that wrote a canary word wherever they could, some in a process of their
own, and many in two shuffled orders.
"""

from collections.abc import Sequence

from sandlot.audit.case import IDLE, Case, Probe
from sandlot.audit.finding import Finding, Layer
from sandlot.audit.probes.differential.comparing import (
    TrialDifference,
    comparable_view,
    difference_finding,
    differing_trials,
    foreign_canaries,
)
from sandlot.audit.probes.likeness import first_difference
from sandlot.audit.probes.plays import GOLDEN, SURE, choose_tasks, request_for
from sandlot.audit.probes.scripted.reach import properties_of, required_of
from sandlot.audit.probes.tour import free_texts, golden_acts, tour_script
from sandlot.audit.subject import Call, Conditions, NamedPlay, Say, Script, Take
from sandlot.core.task import Task

_TASKS, _SANDBOXED = 12, 3
_CANARY = "canary-7f3a9c51"
_ORDERED, _ORDERED_SANDBOXED = SURE, 10
_SAME = "the same opening, observations, final state and score as in a process of its own"


async def _look_at_history(case: Case) -> list[Finding]:
    """Earlier rollouts do not affect later ones."""
    tasks = choose_tasks(case, _TASKS, sandboxed=_SANDBOXED)
    plays = await _plays(case, tasks)
    requests = [request_for(case, task, play) for task in tasks for play in plays[task.id]]
    dirty = [request_for(case, task, await _dirty_script(case, task)) for task in tasks]
    trials = await case.take([*requests, *dirty, *requests])
    first, after = trials[: len(requests)], trials[-len(requests) :]
    last = [request_for(case, tasks[-1], play) for play in plays[tasks[-1].id]]
    fresh = await case.take(last, Conditions(alone=True))
    leaked = [*foreign_canaries(case, requests, after, _CANARY, len(_CANARY))]
    visits = await _calls_in_other_worlds(case, tasks)
    visited = (await case.take([*visits, *requests]))[len(visits) :] if visits else first
    found = differing_trials(case, requests, first, after) + differing_trials(case, last, fresh, first[-len(last) :])
    found += differing_trials(case, requests, first, visited)
    title = "a rollout sees what an earlier one left"
    if leaked:
        expected = f"no trace of `{_CANARY}`, which another rollout wrote"
        return [difference_finding(case, "D05.leak", title, leaked, expected=expected)]
    if not found or await differs_by_chance(case, found[0]):
        return []
    return [difference_finding(case, "D05.history", title, found, expected=_SAME)]


async def differs_by_chance(case: Case, parting: TrialDifference) -> bool:
    """True if the trial differs even without earlier rollouts; `other-surroundings` reports that."""
    alone = Conditions(alone=True)
    one, other = await case.take([Take(task=parting.task.id, play=parting.play, seed=case.seed)] * 2, alone)
    return first_difference(comparable_view(case, one), comparable_view(case, other)) is not None


async def _plays(case: Case, tasks: Sequence[Task]) -> dict[str, list[Script | NamedPlay]]:
    """Idle, the golden solution, and a script that calls every tool once."""
    golden = await case.golden()
    return {
        task.id: [
            IDLE,
            *([GOLDEN] if task.id in golden else []),
            *([tour_script(case, golden[task.id])] if case.description.tools and task.id in golden else []),
        ]
        for task in tasks
    }


async def _calls_in_other_worlds(case: Case, tasks: Sequence[Task]) -> list[Take]:
    """Golden's calls of each task, made in the world of another task: finds caches keyed by the arguments alone."""
    golden = await case.golden()
    if len(tasks) < 2 or not case.description.tools or case.description.image is not None:
        return []
    calls = {
        task.id: [act for act in golden_acts(golden[task.id]) if isinstance(act, Call)] for task in tasks if task.id in golden
    }
    return [
        request_for(case, tasks[place - 1], Script(name="visitor", turns=tuple((call,) for call in calls[task.id])))
        for place, task in enumerate(tasks)
        if calls.get(task.id)
    ]


async def _dirty_script(case: Case, task: Task) -> Script:
    """Golden's calls with the canary in every free text, then unchanged; with a shell, canary files on the disk."""
    golden = (await case.golden()).get(task.id)
    calls = [act for act in golden_acts(golden) if isinstance(act, Call)] if golden else []
    free = {spec.name: free_texts(spec) for spec in case.description.tools}
    marked = [
        Call(call.tool, {**call.arguments, name: _CANARY})
        for call in calls
        for name, value in call.arguments.items()
        if isinstance(value, str) and name in free.get(call.tool, ())
    ]
    others = [
        Call(
            spec.name, {name: _CANARY for name in required_of(spec) if properties_of(spec).get(name, {}).get("type") == "string"}
        )
        for spec in case.description.tools
        if free[spec.name]
    ]
    if any(spec.name == "bash" for spec in case.description.tools) and case.description.image is not None:
        places = "/tmp /var/tmp /dev/shm $HOME /work /data /out /"  # noqa: S108 - of the sandbox
        leave = f"for at in {places}; do echo {_CANARY} > $at/{_CANARY}; done; (nohup sleep 300 >/dev/null 2>&1 &); true"
        marked, others = [Call("bash", {"command": leave})], []
    limit = case.description.limits.but(task.limits).turns - 1
    acts = [*others, *marked, *calls][: max(1, limit) * 8]
    turns = [tuple(acts[at : at + 8]) for at in range(0, len(acts), 8)]
    return Script(name="dirty", turns=(*turns, (Say(_CANARY),)))


async def _look_at_order(case: Case) -> list[Finding]:
    """Tasks give the same results in any order."""
    tasks = choose_tasks(case, _ORDERED, sandboxed=_ORDERED_SANDBOXED)
    plays: list[Script | NamedPlay] = [IDLE, *([GOLDEN] if case.description.has_golden else [])]
    requests = [request_for(case, task, play) for task in tasks for play in plays]
    one, other = [await case.take(requests, Conditions(shuffled=seed)) for seed in (1, 2)]
    found = differing_trials(case, requests, one, other)
    if not found or await differs_by_chance(case, found[0]):
        return []
    title = "a rollout's result depends on which rollouts ran before it"
    conditions = Conditions(shuffled=2)
    expected = "the same in any order"
    return [difference_finding(case, "D05.order", title, found, expected=expected, conditions=conditions)]


PROBES = (
    Probe("after-others", Layer.DIFFERENTIAL, ("D05",), _look_at_history, without_golden=True),
    Probe("shuffled-order", Layer.DIFFERENTIAL, ("D05",), _look_at_order, without_golden=True),
)
