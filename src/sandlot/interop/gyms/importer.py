# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
"""Imports Gymnasium and PettingZoo worlds: one task per seed, the tools `look` and `step`, the return as the score."""

import inspect
from collections.abc import Callable
from pathlib import Path
from textwrap import dedent
from typing import Any

import msgspec

from sandlot.core.errors import AuthorError, ConfigError, boundary
from sandlot.core.ports.importer import ImportedTask, ImportReport
from sandlot.core.rubric import PythonCheck, Rubric
from sandlot.core.task import Task
from sandlot.core.types import Json, digest
from sandlot.interop.folder_writer import EnvironmentDraft, environment_name, write_environment
from sandlot.interop.gyms.source import GymSource, read_source
from sandlot.interop.packages.requirement import package_licence, package_version

_MAX_TEXT = 6000
"""Characters of a world's own description in the system prompt."""
_SPARE_TURNS = 8
"""Turns besides the steps: to look, to correct an action, to say that it is done."""
_WORLD = '''\
"""`{env}` of {requires}, played by a language model with `look` and `step`."""

from sandlot.interop.gyms.world import {kind}

SOURCES = [
    {kind}(
{arguments}
    )
]
'''
_CHECKS = '''\
"""The score is the return of the episode: LOW is worth 0, HIGH is full marks. Nothing is clipped."""

from sandlot import Evidence, Task
from sandlot.interop.gyms.world import score_of_return

LOW = {low!r}
HIGH = {high!r}


def world_return(evidence: Evidence, task: Task) -> tuple[float, str]:
    return score_of_return(evidence, LOW, HIGH)
'''
_SOLUTION = '''\
"""A classic policy plays, through the tools."""

from sandlot import Agent, Task
from sandlot.interop.gyms.world import play_policy

from .world import SOURCES


async def solve(agent: Agent, task: Task) -> None:
    await play_policy(agent, {policy!r}, SOURCES[0])
'''


class GymImporter:
    """`gym:ID?score=LOW..HIGH`: any Gymnasium world (port `Importer`)."""

    kind = "gym"

    def digest(self, source: str) -> str:
        """Changes with Gymnasium's version, and with a file that is named."""
        return _digest("gymnasium", source)

    def write(self, source: str, folder: Path, *, limit: int | None) -> ImportReport:
        """Write the environment; `ConfigError` if something of the world cannot be kept."""
        package_version("gymnasium")
        from sandlot.interop.gyms.episode import GymEpisode  # noqa: PLC0415 - an extra

        named = read_source(source)
        if named.agent:
            raise ConfigError(f"`{source}`: `agent` is for PettingZoo worlds")
        return _write(
            self.kind, source, named, folder, limit, lambda seed: GymEpisode(named.env, named.arguments, named.view, seed)
        )


class PettingZooImporter:
    """`pettingzoo:classic.connect_four_v3?score=-1..1`: one agent of a PettingZoo world (port `Importer`)."""

    kind = "pettingzoo"

    def digest(self, source: str) -> str:
        """Changes with PettingZoo's version, and with a file that is named."""
        return _digest("pettingzoo", source)

    def write(self, source: str, folder: Path, *, limit: int | None) -> ImportReport:
        """Write the environment; `ConfigError` if something of the world cannot be kept."""
        package_version("pettingzoo")
        from sandlot.interop.gyms.episode import AecEpisode  # noqa: PLC0415 - an extra

        named = read_source(source)
        if named.policy:
            raise ConfigError(f"`{source}`: `policy` is for Gymnasium worlds")
        return _write(
            self.kind,
            source,
            named,
            folder,
            limit,
            lambda seed: AecEpisode(named.env, named.arguments, named.view, seed, named.agent),
        )


def _digest(package: str, source: str) -> str:
    file = Path(source)
    return digest(file.read_bytes() if source.endswith(".toml") and file.is_file() else b"") + package_version(package)


def _write(
    kind: str, source: str, named: GymSource, folder: Path, limit: int | None, begin: Callable[[int], Any]
) -> ImportReport:
    scale = named.score_range
    package = "gymnasium" if kind == "gym" else "pettingzoo"
    version = package_version(package)
    with boundary(AuthorError, f"making `{named.env}`"):
        facts = _facts(named, begin)
    steps = named.steps or facts.steps or 200
    tasks = [
        Task(f"seed-{seed}", prompt=_prompt(named, facts, steps), data={"seed": seed})
        for seed in range(min(named.seeds, limit or named.seeds))
    ]
    requires = f"{package}=={version}"
    shown: Json = {"env": named.env, "requires": requires, "arguments": named.arguments, "view": named.view, "steps": steps}
    if kind == "pettingzoo":
        shown["agent"] = facts.agent
    code = {
        "world.py": _WORLD.format(
            env=named.env,
            requires=requires,
            kind="GymWorld" if kind == "gym" else "PettingZooWorld",
            arguments="\n".join(f"        {name}={_literal(value)}," for name, value in shown.items()),
        ),
        "checks.py": _CHECKS.format(low=scale.low, high=scale.high),
    }
    if named.policy:
        code["solution.py"] = _SOLUTION.format(policy=named.policy)
    write_environment(
        folder,
        EnvironmentDraft(
            name=environment_name(named.env),
            settings={
                "description": f"{named.env} of {requires}.",
                "system": facts.text or None,
                "images": "require" if named.view == "image" else None,
                "on_crash": "lose",  # the state of the world is its own, and unknown after it raised
                "limits": {"turns": steps + _SPARE_TURNS},
            },
            tasks=tasks,
            rubrics={"default": Rubric(checks=(PythonCheck(id="return", ref="checks:world_return"),))},
            code=code,
        ),
    )
    licence = package_licence(package)
    return ImportReport(
        kind=kind,
        source=source,
        package=package,
        version=version,
        tasks=tuple(ImportedTask(id=task.id, origin=f"{named.env}, {task.id}", licence=licence) for task in tasks),
        notes=(
            f"wrapped as {facts.wrapped}",
            f"the score is the return: {scale.low:g} is 0, {scale.high:g} is full marks",
            *(("the other agents choose legal actions at random",) if kind == "pettingzoo" else ()),
            *(() if named.policy else ("no golden solution: a world has none; name a policy with `policy=module:function`",)),
        ),
    )


class _WorldFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What is read from a world before it is imported."""

    wrapped: str
    actions: str
    observations: str
    text: str
    steps: int | None
    agent: str | None = None


def _facts(named: GymSource, begin: Callable[[int], Any]) -> _WorldFacts:
    """Play nothing, look at everything; `ConfigError` for what cannot be kept."""
    from sandlot.interop.gyms.space_values import schema_of  # noqa: PLC0415 - an extra

    first, again = begin(0), begin(0)
    try:
        schema_of(first.action_space)
        if first.show() != again.show():
            raise ConfigError(
                f"`{named.env}` is another world after a second reset with the same seed; its tasks could not be repeated"
            )
        env = first.env
        agent = getattr(first, "agent", None)
        spec = getattr(env, "spec", None)
        return _WorldFacts(
            wrapped=str(env),
            actions=str(first.action_space),
            observations=str(env.observation_space(agent) if agent else env.observation_space),
            text=dedent(inspect.getdoc(env.unwrapped) or "")[:_MAX_TEXT],
            steps=getattr(spec, "max_episode_steps", None),
            agent=agent,
        )
    finally:
        first.close()
        again.close()


def _literal(value: Any) -> str:
    """A value of JSON as Python, with double quotes as in code."""
    return f'"{value}"' if isinstance(value, str) and value.isprintable() and not set(value) & set('"\\') else repr(value)


def _prompt(named: GymSource, facts: _WorldFacts, steps: int) -> str:
    played = f" You are `{facts.agent}`." if facts.agent else ""
    return (
        f"You act in the world `{named.env}`.{played} Earn the highest sum of rewards that you can.\n\n"
        f"Observations: {facts.observations}\nActions: {facts.actions}\n\n"
        f"`look` shows the observation, `step` takes one step and shows its reward. There are at most {steps} steps. "
        "When the world has ended, say that you are done."
    )
