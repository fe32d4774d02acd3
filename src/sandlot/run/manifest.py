"""The manifest of a run: what is stored before the first rollout. It is enough to repeat the run, and holds no secrets."""

import copy
import dataclasses
import functools
import os
import platform
import sys
from contextlib import AsyncExitStack
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import anyio.to_thread
import msgspec

from sandlot.core.limits import Limits
from sandlot.core.persona import ROLE_BEGINS
from sandlot.core.ports.world import ToolSpec
from sandlot.core.task import Task, split_of
from sandlot.core.types import Json, digest
from sandlot.env.environment import Environment
from sandlot.env.fingerprint import environment_fingerprint, setting_fingerprint
from sandlot.env.image import build_task_images, host_image_digest
from sandlot.env.session import open_session
from sandlot.env.user import OpenUser
from sandlot.model.engine.precision import processor_name
from sandlot.model.policy.scripted import scripted_policies
from sandlot.model.policy.user import ModelUsers
from sandlot.run.config import RunConfig, RunPlan
from sandlot.run.declared import OverriddenLimit
from sandlot.wiring.config import ModelConfig
from sandlot.wiring.models import renderer_of
from sandlot.wiring.parts import open_backend


class Fingerprints(msgspec.Struct, frozen=True, kw_only=True):
    """What must match for two runs to be comparable."""

    environment: str
    setting: str
    tasks: str
    """Of the chosen tasks with their keys and splits, and the number of rollouts of each."""


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """`manifest.json` of a run directory."""

    format: int = 1
    run: str
    """The run's id: sampling seeds are derived from it."""
    config: RunConfig
    digest: str
    """Of config, environment, setting and tasks: equal for two runs that are the same."""
    environment: str
    """The environment's name."""
    seed: int
    """The environment's seed: worlds and tasks are generated from it."""
    source: str
    fingerprints: Fingerprints
    num_rollouts: int
    created: float
    machine: Json
    tools: tuple[ToolSpec, ...] = ()
    """The tools that the agent may call."""
    image: str = ""
    """Digest of a `host` image, to say what changed when the fingerprint differs; empty for other images, which do not change."""
    limits: Limits | None = None
    """The environment's limits; None in runs of versions that did not store them."""
    task_limits: dict[str, Json] = {}
    """Limits that tasks override, by task id; tasks that override nothing are left out."""
    overridden_limits: tuple[OverriddenLimit, ...] = ()
    """Limits that tasks or their format declare and that do not hold in this run."""
    reported_checks: tuple[str, ...] = ()
    """Judge checks that read the conversation where the agent's own program reports it (`--agent-command`)."""
    seats: tuple[str, ...] = ()
    """Where several agents act: the names of their seats."""
    other_setting: tuple[str, ...] = ()
    """How the setting differs from the one the model was trained in, where that is known and was allowed."""

    def limits_of(self, task: str) -> Limits | None:
        """The limits of a rollout of this task."""
        return self.limits.but(self.task_limits.get(task, {})) if self.limits else None


@dataclass(frozen=True, slots=True)
class RunFacts:
    """What is found out about a run before its first rollout."""

    prints: Fingerprints
    tools: tuple[ToolSpec, ...]
    setting: Json
    """The parts of the setting besides environment and tools, by name; the fingerprint covers them."""
    image: str = ""


async def gather_facts(env: Environment, config: RunConfig, plan: RunPlan) -> RunFacts:
    """The fingerprints of a run, and what they were computed from."""
    # In a thread, and before the first rollout: an image that does not exist yet is built here, outside any rollout's deadline.
    written = await anyio.to_thread.run_sync(environment_fingerprint, env)
    await anyio.to_thread.run_sync(build_task_images, env, plan.tasks)
    agent = config.agent
    judge = config.judge.shown if config.judge else None
    setting = {
        "harness": agent.harness,
        "calls": agent.calls,
        "reasoning": agent.reasoning,
        "rubric": config.rubric,
        "judge": judge,
    }
    renderer = await anyio.to_thread.run_sync(renderer_of, config.model)
    setting |= {"renderer": renderer.name} if renderer else {}
    setting |= {"command": agent.command} if agent.command else {}
    # Left out without a user, so that the fingerprints of runs without one stay the same.
    setting |= {"user": [config.user.shown, msgspec.to_builtins(config.user.sampling)]} if config.user else {}
    seats = {name: [model.shown, msgspec.to_builtins(model.sampling)] for name, model in config.seat_models.items()}
    setting |= {"seats": seats} if seats else {}
    chosen = [[task, split_of(task).value, count] for task, count in zip(plan.tasks, plan.counts, strict=True)]
    tools = await list_served_tools(env, plan.tasks[0], config.sandbox)
    prints = Fingerprints(
        environment=written,
        setting=setting_fingerprint(written, env, tools, setting),
        # An author's own objects in `data` or `key` count by type: the code that builds them is in the environment's fingerprint.
        tasks=digest(msgspec.json.encode(chosen, enc_hook=lambda value: type(value).__qualname__, order="deterministic")),
    )
    served = {"system": env.system, "limits": env.limits, "constraints": list(env.constraints)}
    image = await anyio.to_thread.run_sync(host_image_digest, env)
    return RunFacts(prints, tuple(tools), msgspec.to_builtins({**setting, **served}), image)


async def list_served_tools(env: Environment, task: Task, sandbox: str = "native") -> list[ToolSpec]:
    """Every tool the agent may call. MCP servers are started once, in a world of this task without a user, to list theirs.

    A foreign program that asks a model in a role before it names its tools gets a stand-in's answer.
    """
    if not env.marked.sources:
        return [tool.spec for tool in env.tools]
    alone = copy.copy(env)
    alone.marked = dataclasses.replace(env.marked, user=None, persona=None)
    async with AsyncExitStack() as stack:
        backend = await stack.enter_async_context(open_backend(sandbox)) if env.image is not None else None
        role = _stand_in(task) if env.marked.roles else None
        session = open_session(alone, task, backend=backend, user=role, for_seats=True)
        return list((await stack.enter_async_context(session)).tools)


def _stand_in(task: Task) -> OpenUser:
    users = ModelUsers(scripted_policies(f"constant:{ROLE_BEGINS}"))
    return functools.partial(users.user, task=task.public(), seed=0)


def run_digest(config: RunConfig, prints: Fingerprints) -> str:
    """Equal for the same command on the same environment; an interrupted run is found by it."""
    # What does not change the data does not change the run: a different `at_once`, or a higher cap.
    judge, user = (_without_caps(model) if model else None for model in (config.judge, config.user))
    bounds: Any = {"env": "", "at_once": 1, "adapt": msgspec.UNSET, "other_setting": False}
    seats = {name: _without_caps(model) for name, model in config.seat_models.items()} or msgspec.UNSET
    same = msgspec.structs.replace(config, **bounds, model=_without_caps(config.model), judge=judge, user=user, seats=seats)
    return digest(msgspec.json.encode([same, prints], order="deterministic"))[:8]


def _without_caps(model: ModelConfig) -> ModelConfig:
    """The model without its connections, patience and caps, and without what only changes how fast it answers."""
    none: Any = {"max_total_tokens": None, "max_usd": None, "kv_gib": None, "eviction": None, "speculate": None}
    return msgspec.structs.replace(model, connections=1, patience_s=0.0, routing="prefix", **none)


def public_config(config: RunConfig) -> RunConfig:
    """The config without the passwords in model URLs, to be stored."""
    judge, user = (msgspec.structs.replace(model, spec=model.shown) if model else None for model in (config.judge, config.user))
    model = msgspec.structs.replace(config.model, spec=config.model.shown)
    seats = {name: msgspec.structs.replace(each, spec=each.shown) for name, each in config.seat_models.items()} or msgspec.UNSET
    return msgspec.structs.replace(config, model=model, judge=judge, user=user, seats=seats)


def machine_facts() -> Json:
    """The machine and the software versions."""
    return {
        "sandlot": _own_version(),
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.release()}",
        "processor": processor_name(),
        "cores": os.cpu_count(),
        "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1),
        "argv0": os.path.basename(sys.argv[0]) if sys.argv else "",  # noqa: PTH119 - a name, not a path
    }


def _own_version() -> str:
    try:
        return version("sandlot")
    except PackageNotFoundError:
        return "not installed"  # a machine that only trains may have the sources alone
