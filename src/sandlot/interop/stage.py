"""An environment opened for a trainer that is not ours: it names tasks and gets traces, stored like those of any other run.

The rules of a run apply: rollouts are stored before they count, failed infrastructure is tried again, and an environment that
fails too often stops the training with the reason. A failed rollout never has a reward.
"""

from collections import Counter
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

import anyio

from sandlot.core.errors import ConfigError, HarnessError, unwrapped
from sandlot.core.ports.session import Policies
from sandlot.core.ports.world import ToolSpec
from sandlot.core.task import Task
from sandlot.core.trace import Message, Trace, text_message
from sandlot.core.types import Role, Split
from sandlot.env.environment import Environment
from sandlot.env.session import open_session
from sandlot.run.collector import Collector, open_collector
from sandlot.run.config import RunConfig, Selection
from sandlot.run.prepare import prepare_run
from sandlot.wiring.config import AgentConfig, ModelConfig, judge_config
from sandlot.wiring.parts import Players


@dataclass(frozen=True, slots=True, kw_only=True)
class StageConfig:
    """The environment and how its rollouts are run."""

    env: Environment
    run: Path
    """The run directory; a training that was interrupted there is continued."""
    model: str
    """The policy's name, for the record."""
    agent: AgentConfig = field(default_factory=AgentConfig)
    judge: str | None = None
    sandbox: str = "native"
    at_once: int = 64
    select: Callable[[Task], bool] | None = None
    """Use only tasks for which it returns True."""
    training: bool = True
    """A model learns from the rollouts, so there are only train tasks. False: all tasks, to evaluate."""


@dataclass(frozen=True, slots=True)
class Stage:
    """Tasks of the train split, and rollouts of them with whatever policies the trainer brings."""

    collector: Collector
    tasks: dict[str, Task]
    taken: Counter[str]
    """Rollouts of each task so far."""

    @property
    def env(self) -> Environment:
        """The environment of the tasks."""
        return self.collector.prepared.env

    @property
    def tools(self) -> tuple[ToolSpec, ...]:
        """The tools that the agent may call."""
        return self.collector.manifest.tools

    async def play(self, wanted: Sequence[tuple[str, Policies]], attempts: int | None = None) -> list[Trace]:
        """One rollout for each task and policy, in this order; `HarnessError` if the run was stopped as bad."""
        traces: list[Trace | None] = [None] * len(wanted)
        collection = self.collector.collection

        async def one(place: int, task: Task, number: int, policies: Policies) -> None:
            traces[place] = await self.collector.take(task, number, lambda: Players(policies), attempts=attempts)

        try:
            with collection.until_stopped():
                async with anyio.create_task_group() as group:
                    for place, (name, policies) in enumerate(wanted):
                        task = self.task(name)
                        number = self.taken[name]
                        self.taken[name] += 1
                        group.start_soon(one, place, task, number, policies)
        except BaseExceptionGroup as failures:
            raise unwrapped(failures) from failures
        if collection.stopped is not None:
            raise HarnessError(collection.stopped)
        return [trace for trace in traces if trace is not None]

    async def opening(self, task: Task) -> list[Message]:
        """The first messages of a task; an environment that is one function or has a user is asked for them."""
        if self.env.marked.user is None:
            return [
                *([text_message(Role.SYSTEM, self.env.system)] if self.env.system else []),
                text_message(Role.USER, task.prompt),
            ]
        parts = self.collector.parts
        assert parts is not None, "opened in this process"
        async with open_session(self.env, task, backend=parts.grading.backend) as session:
            return list((await session.reset()).messages)

    def task(self, name: str) -> Task:
        """The task with this id."""
        if name not in self.tasks:
            raise ConfigError(f"`{name}` is none of the {len(self.tasks)} tasks of environment `{self.env.name}`")
        return self.tasks[name]


@asynccontextmanager
async def open_stage(stage: StageConfig) -> AsyncGenerator[Stage]:
    """Plan, open sandboxes and judge, make or continue the run directory."""
    env = stage.env
    config = RunConfig(
        env=str(env.source or env.name),
        model=ModelConfig(spec=stage.model),
        select=Selection(split=Split.TRAIN, training=True) if stage.training else Selection(),
        agent=stage.agent,
        judge=judge_config(stage.judge),
        sandbox=stage.sandbox,
        at_once=stage.at_once,
    )
    prepared = await prepare_run(env, config)
    tasks = tuple(task for task in prepared.tasks if stage.select is None or stage.select(task.public()))
    if not tasks:
        raise ConfigError(f"`select` returned False for all {len(prepared.tasks)} tasks of environment `{env.name}`")
    async with open_collector(replace(prepared, tasks=tasks), stage.run) as collector:
        taken = Counter(name for name, _ in collector.store.done_keys())
        yield Stage(collector, {task.id: task for task in tasks}, taken)
