"""The parts of a run, and how each is opened.

A part is named by a short spec, `scheme:rest`. Built-in schemes and installed ones (entry points) are looked up the same way, and
the error for an unknown one lists those there are.
"""

import functools
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sandlot.core.errors import ConfigError
from sandlot.core.ports.grading import Evidence, Judge
from sandlot.core.ports.sandbox import Backend
from sandlot.core.ports.session import Harness, Hook, Policies, Users
from sandlot.core.task import Task
from sandlot.core.types import derive_seed
from sandlot.env.environment import Environment
from sandlot.env.user import OpenUser
from sandlot.harness.tool_loop import ToolLoop
from sandlot.observe.events import Sink, ignore_event
from sandlot.wiring.config import AgentConfig, ModelConfig
from sandlot.wiring.plugins import find_opener, load_part


def ignore_evidence(_evidence: Evidence) -> None:
    """For gradings whose evidence is not looked at afterwards."""


@dataclass(frozen=True, slots=True)
class Grading:
    """Everything that grading needs besides the evidence."""

    env: Environment
    judge: Judge | None = None
    rubric: str | None = None
    """Grade by this rubric instead of the tasks' own."""
    backend: Backend | None = None
    """Opens sandboxes, for rollouts and for checks that execute something."""
    on_evidence: Callable[[Evidence], None] = ignore_evidence
    """Gets the evidence of each grading before its checks do, and can tell afterwards what they read of it."""


async def grade_at_once() -> None:
    """For rollouts that are graded as soon as their evidence is stored."""


@dataclass(frozen=True, slots=True)
class Players:
    """Who acts in a rollout."""

    policies: Policies
    seats: Mapping[str, Policies] = field(default_factory=dict[str, Policies])
    """Where several agents act: policies of seats that `policies` do not play."""


@dataclass(frozen=True, slots=True)
class RolloutParts:
    """Everything that a rollout needs besides its task."""

    grading: Grading
    policies: Policies
    harness: Harness
    users: Users | None = None
    """Simulated users for the environment's persona; None for the author's own replies, or no user."""
    draws: str | None = None
    """Seeds are derived from this instead of the run's name: runs with the same value sample the same."""
    sink: Sink = ignore_event
    """Receives the turns, tool calls and scores; it must not raise (`fan_out` sees to that)."""
    wait_for_grading: Callable[[], Awaitable[None]] = grade_at_once
    """Awaited when the evidence is stored and the world is closed; grading begins when it returns."""
    seats: Mapping[str, Policies] = field(default_factory=dict[str, Policies])
    """Where several agents act: policies of seats that `policies` do not play."""

    def policies_of(self, seat: str) -> Policies:
        """Who plays a seat."""
        return self.seats.get(seat, self.policies)

    def user(self, task: Task, run: str, rollout: int) -> OpenUser | None:
        """A function that opens the user of one rollout. The user does not get the task's key."""
        if self.users is None:
            return None
        seed = derive_seed("user", self.draws or run, task.id, rollout)
        return functools.partial(self.users.user, task=task.public(), seed=seed, rollout=rollout)

    @property
    def env(self) -> Environment:
        """The environment."""
        return self.grading.env


def open_harness(config: AgentConfig, more: Sequence[Hook] = ()) -> Harness:
    """The harness that a config names, with its hooks, and `more` after them."""
    hooks: list[Hook] = [load_part(path, "hook", ("after_turn", "after_step")) for path in config.hooks]
    hooks += more
    if config.command is not None and config.harness != "command":
        raise ConfigError(f"harness `{config.harness}` runs no command; leave out `--agent-command`, or `--harness`")
    if config.harness == "tool-loop":
        return ToolLoop(hooks)
    if hooks:
        raise ConfigError(f"hooks work with harness `tool-loop` only; `{config.harness}` does not call them: leave the hooks out")
    if config.harness == "command":
        from sandlot.harness.captured.command import CommandAgent  # noqa: PLC0415 - only the `command` harness needs a server

        return CommandAgent(config.command or "")
    return load_part(config.harness, "harness", ("name", "play"))


@asynccontextmanager
async def open_grading(
    env: Environment,
    *,
    judge: ModelConfig | None = None,
    rubric: str | None = None,
    sandbox: str = "native",
    pool: int = 0,
    cache: Path | None = None,
) -> AsyncGenerator[Grading]:
    """The judge and the sandboxes of an environment, open until the block ends; `cache` is a folder for a judge's verdicts."""
    from sandlot.wiring.models import open_judge  # noqa: PLC0415 - only runs with a judge need it

    async with AsyncExitStack() as stack:
        judging = await stack.enter_async_context(open_judge(judge, cache)) if judge else None
        backend = await stack.enter_async_context(open_backend(sandbox, pool)) if env.image is not None else None
        await _require_apart(env, backend)
        yield Grading(env=env, judge=judging, rubric=rubric, backend=backend)


async def _require_apart(env: Environment, backend: Backend | None) -> None:
    """`ConfigError` if seats would share a sandbox that cannot keep them apart."""
    if not env.seats or backend is None:
        return
    kept = (await backend.probe()).get("seats", "no: it does not say")
    if not kept.startswith("yes"):
        raise ConfigError(
            f"environment `{env.name}` has seats in one sandbox, which cannot keep them apart: {kept.removeprefix('no: ')}"
        )


@asynccontextmanager
async def open_parts(
    grading: Grading,
    agent: AgentConfig,
    policies: AbstractAsyncContextManager[Policies],
    user: ModelConfig | None = None,
    hooks: Sequence[Hook] = (),
    seats: Mapping[str, ModelConfig] | None = None,
) -> AsyncGenerator[RolloutParts]:
    """Everything rollouts need, open for as long as the block lasts: `policies` are opened here, and the models of others."""
    from sandlot.wiring.models import open_policies, open_users  # noqa: PLC0415 - only runs with a user need it

    if agent.harness == "command" and grading.env.image is None:
        raise ConfigError(
            f"environment `{grading.env.name}` has no sandbox to put an agent into; run it in one with `--image host`"
        )
    if agent.harness == "command" and grading.env.marked.roles:
        raise ConfigError(
            f"harness `command` runs the agent's own loop, and `{grading.env.name}` asks models in roles beside it; use another"
        )
    if agent.harness == "command" and user is not None and grading.env.marked.persona:
        raise ConfigError(
            f"harness `command` runs the agent's own loop, which `{user.shown}` cannot speak to as a user; leave `--user` out"
        )
    if agent.harness == "command" and grading.env.seats:
        raise ConfigError(f"harness `command` runs one agent, and `{grading.env.name}` has seats for several; leave it out")
    async with policies as opened, AsyncExitStack() as stack:
        users = await stack.enter_async_context(open_users(user, grading.env)) if user else None
        others = {
            name: await stack.enter_async_context(open_policies(model, agent, grading.env))
            for name, model in (seats or {}).items()
        }
        yield RolloutParts(grading=grading, policies=opened, harness=open_harness(agent, hooks), users=users, seats=others)


def open_backend(spec: str = "native", pool: int = 0) -> AbstractAsyncContextManager[Backend]:
    """A sandbox backend by name; installed ones are found in the group `sandlot.backends`."""
    open_it, rest = find_opener("backends", _BACKENDS, spec)
    return open_it(rest, pool=pool)


def _open_native(rest: str, *, pool: int) -> AbstractAsyncContextManager[Backend]:
    from sandlot.sandbox.native.backend import open_native  # noqa: PLC0415 - only sandboxed environments need it

    if rest:
        raise ConfigError(f"sandbox `native:{rest}`: write `native` only")
    return open_native(pool=pool)


def _open_docker(rest: str, *, pool: int) -> AbstractAsyncContextManager[Backend]:
    from sandlot.sandbox.docker.backend import open_docker  # noqa: PLC0415 - importing aiohttp takes long

    return open_docker(rest, pool=pool)


_BACKENDS: dict[str, Callable[..., Any]] = {"native": _open_native, "docker": _open_docker}
