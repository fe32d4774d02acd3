"""A `Subject` without processes, for tests of probes: the same rollouts and gradings, here and now.

Conditions that need a process of their own (hash seed, clock, locale, most faults) are not made true; `alone` is.
"""

import random
from collections.abc import Callable, Sequence

import anyio
import msgspec

from sandlot import Agent, Environment, Task
from sandlot.audit.answer_places import look_up
from sandlot.audit.case import Case
from sandlot.audit.subject import (
    PLAIN,
    Conditions,
    Declared,
    Description,
    Play,
    Regrade,
    Request,
    Say,
    Script,
    Take,
    Trial,
)
from sandlot.audit.subjects.environment.conditions import break_environment
from sandlot.core.trace import Failed, Scored, Text, ToolCall
from sandlot.env.grading import rubric_for
from sandlot.env.taskset import tasks_of
from sandlot.harness.tool_loop import ToolLoop
from sandlot.model.policy.player import Move, Player, PlayerView
from sandlot.model.policy.scripted import PLAYS, ScriptedPolicies
from sandlot.rollout import grade_trace, record_outcome, run_rollout
from sandlot.store.blobs import MemoryBlobs
from sandlot.wiring.parts import Grading, RolloutParts

NOTHING = Declared()


class InProcess:
    def __init__(
        self, make: Callable[[], Environment], declared: Declared = NOTHING, change: Callable[[Conditions], None] | None = None
    ):
        self._make = make
        self._env = make()
        self._declared = declared
        self._change = change
        self.conditions: list[Conditions] = []

    async def describe(self) -> Description:
        env, tasks = self._env, tasks_of(self._env)
        return Description(
            name=env.name,
            kind="environment",
            fingerprint="test",
            tasks=tuple(tasks),
            tools=tuple(tool.spec for tool in env.tools),
            rubrics={} if env.marked.grade else {"default": rubric_for(env, tasks[0], "default")},
            system=env.system,
            limits=env.limits,
            has_golden=env.marked.solution is not None,
            has_user=env.marked.user is not None,
            declared=self._declared,
        )

    async def take(self, requests: Sequence[Request], conditions: Conditions = PLAIN) -> list[Trial]:
        """A new `take` is a new environment: what a new process would be."""
        self.conditions.append(conditions)
        self._env = self._make()
        if conditions.fault == "tool:refuse":
            break_environment(self._env, conditions.fault)
        if self._change is not None:
            self._change(conditions)
        trials: list[Trial] = [Trial()] * len(requests)
        order = list(range(len(requests)))
        if conditions.shuffled is not None:
            random.Random(conditions.shuffled).shuffle(order)
        slots = anyio.CapacityLimiter(conditions.at_once)

        async def one(place: int) -> None:
            async with slots:
                trials[place] = await self._taken(requests[place], conditions, place)

        async with anyio.create_task_group() as group:
            for place in order:
                if conditions.alone:
                    self._env = self._make()
                if conditions.random_seed is not None:
                    random.seed(conditions.random_seed + place)
                if conditions.at_once == 1:
                    await one(place)
                else:
                    group.start_soon(one, place)
        return trials

    async def _taken(self, request: Request, conditions: Conditions, place: int) -> Trial:
        tasks = {
            task.id: msgspec.structs.replace(task, limits={**task.limits, **conditions.limits}) for task in tasks_of(self._env)
        }
        grading, blobs = Grading(env=self._env), MemoryBlobs()
        if isinstance(request, Regrade):
            for data in request.files.values():
                await blobs.put(data)
            trace = msgspec.structs.replace(request.trace, outcome=None)
            scores = []
            for _ in range(request.times):
                with record_outcome(trace):
                    trace.outcome = Scored(await grade_trace(grading, tasks[trace.task], trace, blobs))
                scores.append(trace.outcome)
            return Trial(trace=request.trace, files=request.files, scores=tuple(scores))
        assert isinstance(request, Take)
        policies = ScriptedPolicies(request.play.name, lambda task, seed: self._player(request.play, request.seed))
        parts = RolloutParts(grading=grading, policies=policies, harness=ToolLoop())
        trace = await run_rollout(parts, tasks[request.task], run="audit", rollout=place, blobs=blobs)
        kept = {file.blob for file in (trace.evidence.files.values() if trace.evidence else ())}
        if trace.evidence and trace.evidence.apps:
            kept.add(trace.evidence.apps.journal)
        files = {name: await blobs.get(name) for name in kept if name}
        scores = (trace.outcome,) if isinstance(trace.outcome, Scored | Failed) else ()
        return Trial(trace=trace, files=files, scores=scores, seconds=0.001)

    def _player(self, play: Play, seed: int):
        if isinstance(play, Script):
            return Player(play.name, lambda moment: _move(play, moment), seed)
        if play.name in PLAYS:
            return Player(play.name, PLAYS[play.name], seed)
        return self._env.marked.solution if play.name == "golden" else {"look-up": look_up}[play.name]


def _move(script: Script, moment: PlayerView) -> Move:
    if moment.turn >= len(script.turns):
        return Move()
    return Move(
        tuple(
            Text(act.text) if isinstance(act, Say) else ToolCall(f"call_{moment.turn}_{at}", act.tool, act.arguments)
            for at, act in enumerate(script.turns[moment.turn])
        )
    )


async def case_of(
    make: Callable[[], Environment], declared: Declared = NOTHING, change: Callable[[Conditions], None] | None = None
) -> Case:
    """An audit under way, of an environment in this process."""
    subject = InProcess(make, declared, change)
    description = await subject.describe()
    return Case(subject=subject, description=description, tasks=description.tasks)


def codes(findings) -> set[str]:
    """The codes of findings that are confirmed."""
    return {finding.code for finding in findings if finding.standing == "confirmed"}


__all__ = ["Agent", "InProcess", "Task", "case_of", "codes"]
