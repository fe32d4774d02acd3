"""What is written down before a run begins: enough to repeat it, and nothing secret."""

import os
import platform
import sys
from importlib.metadata import version

import anyio.to_thread
import msgspec

from sandlot.env.environment import Environment
from sandlot.env.fingerprint import environment_fingerprint, setting_fingerprint
from sandlot.env.session import open_session
from sandlot.ports import ToolSpec
from sandlot.run.config import Plan, RunConfig
from sandlot.task import split_of
from sandlot.types import Json, digest
from sandlot.wiring.models import public_spec
from sandlot.wiring.parts import ModelConfig


class Fingerprints(msgspec.Struct, frozen=True, kw_only=True):
    """What must match for two runs to be comparable."""

    environment: str
    setting: str
    tasks: str
    """Of the chosen tasks' ids, splits and counts."""


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """`manifest.json` of a run directory."""

    format: int = 1
    run: str
    """The run's id: sampling seeds are derived from it."""
    config: RunConfig
    environment: str
    """The environment's name."""
    source: str
    fingerprints: Fingerprints
    num_rollouts: int
    created: float
    machine: Json


async def fingerprints(env: Environment, config: RunConfig, plan: Plan) -> Fingerprints:
    """Of the environment, of the setting a model meets there, and of the chosen tasks."""
    # In a thread, and before the first rollout: an image that does not exist yet is made here, under no rollout's deadline.
    written = await anyio.to_thread.run_sync(environment_fingerprint, env)
    agent = config.agent
    setting = {"harness": agent.harness, "calls": agent.calls, "reasoning": agent.reasoning, "rubric": config.rubric}
    chosen = [[task.id, split_of(task).value, count] for task, count in zip(plan.tasks, plan.counts, strict=True)]
    return Fingerprints(
        environment=written,
        setting=setting_fingerprint(written, env, await _tools_as_served(env, plan), setting),
        tasks=digest(msgspec.json.encode(chosen)),
    )


async def _tools_as_served(env: Environment, plan: Plan) -> list[ToolSpec]:
    """Marked tools are known; what MCP servers offer is asked of them once, in a world that is thrown away."""
    if not env.parts.sources:
        return [tool.spec for tool in env.tools]
    async with open_session(env, plan.tasks[0]) as session:
        return list(session.tools)


def run_digest(config: RunConfig, prints: Fingerprints) -> str:
    """The same for the same command on the same environment: how an interrupted run is found again."""
    # What does not change the data does not change the identity: more at once, or a higher cap, is still the same run.
    judge = _unbounded(config.judge) if config.judge else None
    same = msgspec.structs.replace(config, env="", at_once=1, model=_unbounded(config.model), judge=judge)
    return digest(msgspec.json.encode([same, prints], order="deterministic"))[:8]


def _unbounded(model: ModelConfig) -> ModelConfig:
    """The model without what only says how fast and how far it may go."""
    return msgspec.structs.replace(model, connections=1, patience_s=0.0, max_total_tokens=None, max_usd=None)


def public(config: RunConfig) -> RunConfig:
    """The config as it may be written down: a password in a model's URL stays out of it."""
    judge = config.judge
    return msgspec.structs.replace(
        config,
        model=msgspec.structs.replace(config.model, spec=public_spec(config.model.spec)),
        judge=msgspec.structs.replace(judge, spec=public_spec(judge.spec)) if judge else None,
    )


def machine_facts() -> Json:
    """Where it ran."""
    return {
        "sandlot": version("sandlot"),
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.release()}",
        "cores": os.cpu_count(),
        "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1),
        "argv0": os.path.basename(sys.argv[0]) if sys.argv else "",  # noqa: PTH119 - a name, not a path
    }
