"""What tests of the gallery share: its folders, fresh copies of its environments, and rollouts in memory."""

import json
import tomllib
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from random import Random
from typing import Any

import anyio

from sandlot import Agent, Environment, Scored, Task, Trace, load
from sandlot.core.ports.grading import Judge
from sandlot.core.ports.model import Reply
from sandlot.core.trace import Text
from sandlot.env.module import forget_modules, load_module
from sandlot.env.taskset import tasks_of
from sandlot.grade.judge import ModelJudge
from sandlot.harness.tool_loop import ToolLoop
from sandlot.model.policy.scripted import ScriptedPolicies
from sandlot.rollout import run_rollout
from sandlot.store.blobs import MemoryBlobs
from sandlot.wiring.parts import Grading, RolloutParts, open_backend

PLACE = Path(__file__).parents[2] / "environments" / "broken"
FOLDERS = sorted(path.parent for path in PLACE.glob("*/defect.toml"))
NAMES = [folder.name for folder in FOLDERS]

Play = Callable[[Agent, Task], Awaitable[None]]


def defect(name: str) -> dict[str, Any]:
    """What is planted in a folder."""
    return tomllib.loads((PLACE / name / "defect.toml").read_text(encoding="utf-8"))


def fresh(name: str, twin: str) -> Environment:
    """One twin, loaded anew: what earlier tests left in its module is gone."""
    forget_modules(PLACE / name)
    return load(PLACE / name / f"{twin}.py")


async def played(
    env: Environment,
    play: Play | None = None,
    *,
    tasks: Sequence[Task] | None = None,
    at_once: int = 1,
    judge: Judge | None = None,
) -> list[Trace]:
    """One rollout of every task, one after the other unless told otherwise; without `play` the golden solution.

    Of an environment with a sandbox only two tasks are played: they are made by one rule, and take their time.
    """
    traces: list[Trace] = []
    chosen = play or env.marked.solution
    assert chosen is not None
    slots = anyio.CapacityLimiter(at_once)
    async with AsyncExitStack() as stack:
        backend = await stack.enter_async_context(open_backend("native")) if env.image is not None else None
        policies = ScriptedPolicies("scripted:test", lambda task, seed: chosen)
        parts = RolloutParts(grading=Grading(env=env, judge=judge, backend=backend), policies=policies, harness=ToolLoop([]))

        async def one(task: Task) -> None:
            async with slots:
                traces.append(await run_rollout(parts, task, run="gallery", rollout=0, blobs=MemoryBlobs()))

        async with anyio.create_task_group() as group:
            for task in tasks if tasks is not None else tasks_of(env)[: 2 if env.image else None]:
                group.start_soon(one, task)
    return traces


def values(traces: Sequence[Trace]) -> list[float]:
    """Their rewards; a rollout without one fails the test."""
    scored = []
    for trace in traces:
        assert isinstance(trace.outcome, Scored), (trace.task, trace.outcome)
        scored.append(trace.outcome.score.value)
    return scored


def saying(text: str | Callable[[Task], str]) -> Play:
    """An agent that says one thing."""

    async def play(agent: Agent, task: Task) -> None:
        await agent.say(text if isinstance(text, str) else text(task))

    return play


def doing(
    *calls: tuple[str, dict[str, Any]] | Callable[[Task], tuple[str, dict[str, Any]]], seen: list[str] | None = None
) -> Play:
    """An agent that makes these calls one after the other, and notes in `seen` what the last one showed."""

    async def play(agent: Agent, task: Task) -> None:
        shown = ""
        for call in calls:
            tool, arguments = call(task) if callable(call) else call
            shown = await agent.call(tool, **arguments)
        if seen is not None:
            seen.append(shown)

    return play


class ScriptedJudge:
    """A judge of `judges.py` as a chat model."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._reply = load_module(PLACE / "judges.py").reply
        self._rng = Random(0)

    async def chat(self, messages, tools, sampling) -> Reply:
        return Reply(parts=(Text(self._reply(self.name, messages[-1].text, self._rng)),))


def judge_for(name: str) -> Judge | None:
    """The judge a folder needs, if it needs one."""
    said = defect(name)
    return ModelJudge(ScriptedJudge(said["judge"])) if "judge" in said else None


def rows(path: Path) -> list[dict[str, Any]]:
    """A JSONL file."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
