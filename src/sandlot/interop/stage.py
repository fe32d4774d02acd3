"""An environment opened for a trainer that is not ours: it names tasks and gets traces, kept like those of any other run.

What holds in a run holds here: rollouts are on disk before they count, infrastructure that fails is tried again, and an
environment that fails too often stops the training with the reason. A rollout that failed has no reward, whatever the trainer
would like.
"""

from collections import Counter
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import anyio
import msgspec

from sandlot.core.errors import ConfigError, HarnessError, unwrapped
from sandlot.core.ports.session import Harness, Policies
from sandlot.core.ports.world import ToolSpec
from sandlot.core.task import Task
from sandlot.core.trace import Message, Trace, text_message
from sandlot.core.types import Role, Split
from sandlot.env.environment import Environment
from sandlot.env.session import open_session
from sandlot.run.breaker import Breaker
from sandlot.run.collect import Collection, take
from sandlot.run.config import RunConfig, Selection, plan_run
from sandlot.run.manifest import Manifest
from sandlot.run.run import manifest_of
from sandlot.store.directory import RunDirectory, open_run
from sandlot.wiring.config import AgentConfig, ModelConfig, judge_config
from sandlot.wiring.parts import Grading, RolloutParts, open_grading, open_harness

_ATTEMPTS = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Staging:
    """What is opened, and how much of the machine it may take."""

    env: Environment
    run: Path
    """Where rollouts are kept; an earlier training there is gone on with."""
    model: str
    """The policy's name, for the record."""
    agent: AgentConfig = field(default_factory=AgentConfig)
    judge: str | None = None
    sandbox: str = "native"
    at_once: int = 64
    select: Callable[[Task], bool] | None = None
    """Only tasks it says yes to."""


@dataclass(frozen=True, slots=True)
class Stage:
    """Tasks of the train split, to be played by whatever policy is brought."""

    env: Environment
    tasks: dict[str, Task]
    name: str
    grading: Grading
    harness: Harness
    store: RunDirectory
    limiter: anyio.CapacityLimiter
    breaker: Breaker
    tools: tuple[ToolSpec, ...] = ()
    """As they are served."""
    taken: Counter[str] = field(default_factory=Counter[str])
    """Rollouts of each task so far."""

    async def play(self, wanted: Sequence[tuple[str, Policies]], attempts: int = _ATTEMPTS) -> list[Trace]:
        """One rollout for each task and policy, in this order; `HarnessError` if the run was judged bad."""
        traces: list[Trace | None] = [None] * len(wanted)
        collection = Collection()

        async def one(place: int, task: Task, number: int, policies: Policies) -> None:
            async with self.limiter:
                traces[place] = await take(
                    RolloutParts(grading=self.grading, policies=policies, harness=self.harness),
                    self.store,
                    task,
                    number,
                    collection=collection,
                    run=self.name,
                    attempts=attempts,
                    breaker=self.breaker,
                )

        try:
            with collection.scope:
                async with anyio.create_task_group() as group:
                    for place, (name, policies) in enumerate(wanted):
                        task = self.task(name)
                        number = self.taken[name]
                        self.taken[name] += 1
                        group.start_soon(one, place, task, number, policies)
        except BaseExceptionGroup as failures:
            raise unwrapped(failures) from failures
        if collection.stopped is not None:
            raise HarnessError("; ".join([collection.stopped, *(example.message for example in collection.examples[:1])]))
        return [trace for trace in traces if trace is not None]

    async def opening(self, task: Task) -> list[Message]:
        """What the agent is told first; an environment that speaks for itself is asked."""
        if self.env.marked.user is None:
            return [
                *([text_message(Role.SYSTEM, self.env.system)] if self.env.system else []),
                text_message(Role.USER, task.prompt),
            ]
        async with open_session(self.env, task, backend=self.grading.backend) as session:
            return list((await session.reset()).messages)

    def task(self, name: str) -> Task:
        """By its id."""
        if name not in self.tasks:
            raise ConfigError(f"`{name}` is none of the {len(self.tasks)} train tasks of environment `{self.env.name}`")
        return self.tasks[name]


@asynccontextmanager
async def open_stage(staging: Staging) -> AsyncGenerator[Stage]:
    """Plan, open sandboxes and judge, make or re-open the run directory."""
    env = staging.env
    judge = judge_config(staging.judge)
    config = RunConfig(
        env=str(env.source or env.name),
        model=ModelConfig(spec=staging.model),
        select=Selection(split=Split.TRAIN, training=True),
        agent=staging.agent,
        judge=judge,
        sandbox=staging.sandbox,
        at_once=staging.at_once,
    )
    plan = plan_run(env, config)
    tasks = {task.id: task for task in plan.tasks if staging.select is None or staging.select(task.public())}
    if not tasks:
        raise ConfigError(f"`select` says no to all {len(plan.tasks)} train tasks of environment `{env.name}`")
    manifest = await manifest_of(staging.run, env, config, plan)
    async with (
        open_grading(env, judge=judge, sandbox=staging.sandbox, pool=min(staging.at_once, 16)) as grading,
        open_run(staging.run, manifest=manifest) as store,
    ):
        yield Stage(
            env=env,
            tasks=tasks,
            name=staging.run.name,
            grading=grading,
            harness=open_harness(staging.agent),
            store=store,
            limiter=anyio.CapacityLimiter(staging.at_once),
            breaker=Breaker(num_tasks=len(tasks)),
            tools=msgspec.json.decode(manifest, type=Manifest).tools,
            taken=Counter(name for name, _ in store.done_keys()),
        )
