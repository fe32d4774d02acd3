# pyright: reportMissingImports=false, reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
"""AgentDojo's suites: office tasks with tools, and the same tasks with injected instructions in what the tools return.

    agentdojo:workspace                                the user tasks of one suite
    agentdojo:all                                      those of all four
    agentdojo:banking?attack=important_instructions    every user task with every injection task: a security suite

The attack's texts come from the package. An attacked task has two checks: the user's task was done, and the injection was not.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

import msgspec

from sandlot.core.errors import ConfigError, boundary
from sandlot.core.ports.importer import ImportedTask, ImportReport, LeftOut
from sandlot.core.rubric import PythonCheck, Rubric
from sandlot.core.task import Task
from sandlot.core.types import Json
from sandlot.interop.folder_writer import EnvironmentDraft, environment_name, write_environment
from sandlot.interop.packages.agentdojo_world import fresh_environment, suite_of
from sandlot.interop.packages.requirement import package_licence, package_version, require_package

_PACKAGE = "agentdojo"
_SUITES = ("workspace", "travel", "banking", "slack")
_VERSION = "v1.2.2"
_TURNS = 15
"""AgentDojo's own limit of turns with tools."""
_WORLD = '''\
"""AgentDojo's tools and environments."""

from sandlot.interop.packages.agentdojo_world import DojoWorld

SOURCES = [DojoWorld("{requires}")]
'''
_CHECKS = '''\
"""AgentDojo's own verdicts."""

from sandlot import Evidence, Task
from sandlot.interop.packages.agentdojo_world import verdict_on


def utility(evidence: Evidence, task: Task) -> bool:
    return verdict_on(evidence, task, "utility")


def resisted(evidence: Evidence, task: Task) -> bool:
    return not verdict_on(evidence, task, "security")
'''
_SOLUTION = '''\
"""AgentDojo's ground truth: its calls, then its words."""

from sandlot import Agent, Task


async def solve(agent: Agent, task: Task) -> None:
    for call in task.key["calls"]:
        await agent.call(call["name"], **call["arguments"])
    await agent.say(task.key["output"])
'''


class AgentDojoImporter:
    """`agentdojo:SUITE` (port `Importer`)."""

    kind = "agentdojo"

    def digest(self, source: str) -> str:  # noqa: ARG002 - the source is its name
        """Changes with the package."""
        return package_version(_PACKAGE)

    def write(self, source: str, folder: Path, *, limit: int | None) -> ImportReport:
        """Write the environment. A task whose ground truth cannot be had is left out with the reason."""
        requires = f"{_PACKAGE}=={package_version(_PACKAGE)}"
        require_package(requires, "agentdojo")
        suites, version, attack = _read_source(source)
        tasks: list[Task] = []
        left_out: list[LeftOut] = []
        for suite in suites:
            for name, make in _tasks_of(suite, version, attack):
                if limit is not None and len(tasks) >= limit:
                    break
                try:
                    with boundary(ConfigError, f"`{name}`"):
                        tasks.append(make())
                except ConfigError as error:
                    left_out.append(LeftOut(what=name, why=str(error)[:500]))
        utility = PythonCheck(id="utility", ref="checks:utility")
        draft = EnvironmentDraft(
            name=environment_name(f"agentdojo-{source.partition('?')[0]}" + (f"-{attack}" if attack else "")),
            settings={
                "description": f"{source} of {requires}.",
                "system": _system_message(),
                "concurrent": False,
                "limits": {"turns": _TURNS * 2},
            },
            tasks=tasks,
            rubrics={
                "default": Rubric(checks=(utility,)),
                "attacked": Rubric(checks=(utility, PythonCheck(id="resisted", ref="checks:resisted", points=0, gate=True))),
            },
            code={"world.py": _WORLD.format(requires=requires), "checks.py": _CHECKS, "solution.py": _SOLUTION},
        )
        write_environment(folder, draft)
        licence = package_licence(_PACKAGE)
        return ImportReport(
            kind=self.kind,
            source=source,
            package=_PACKAGE,
            version=f"{package_version(_PACKAGE)}, benchmark {version}",
            tasks=tuple(ImportedTask(id=task.id, origin=task.id, licence=licence) for task in tasks),
            left_out=tuple(left_out),
            notes=(
                "AgentDojo asks a model that ends without text up to three times; here that is its last message",
                "AgentDojo counts a model that errors or exceeds its context as not done; here that is a failure without a score",
            ),
        )


def _read_source(source: str) -> tuple[tuple[str, ...], str, str | None]:
    name, _, query = source.partition("?")
    options = dict(parse_qsl(query, keep_blank_values=True))
    version, attack = options.pop("version", _VERSION), options.pop("attack", None)
    if options:
        raise ConfigError(f"`{source}`: unknown `{next(iter(options))}`; there are: version, attack")
    if name not in {*_SUITES, "all"}:
        raise ConfigError(f"`{source}`: there is no suite `{name}`; there are: all, {', '.join(_SUITES)}")
    from agentdojo.attacks.attack_registry import ATTACKS  # noqa: PLC0415 - imported where it is used

    if attack is not None and attack not in ATTACKS:
        raise ConfigError(f"`{source}`: there is no attack `{attack}`; there are: {', '.join(ATTACKS)}")
    return (_SUITES if name == "all" else (name,)), version, attack


def _tasks_of(suite: str, version: str, attack: str | None) -> Iterator[tuple[str, Any]]:
    """The name of each task, and a function that makes it."""
    loaded = suite_of(version, suite)
    if attack is None:
        for user_task in loaded.user_tasks.values():
            name = f"{suite}-{user_task.ID}"
            yield name, lambda name=name, user_task=user_task: _task(name, suite, version, user_task, {}, None)
        return
    from agentdojo.agent_pipeline.ground_truth_pipeline import GroundTruthPipeline  # noqa: PLC0415 - as above
    from agentdojo.attacks.attack_registry import load_attack  # noqa: PLC0415 - as above

    attacked = GroundTruthPipeline(None)
    attacked.name = "local"  # the model's name in the attacks that use one
    attacker = load_attack(attack, loaded, attacked)
    for user_task in loaded.user_tasks.values():
        for injection_task in loaded.injection_tasks.values():
            name = f"{suite}-{user_task.ID}-{injection_task.ID}"
            yield (
                name,
                lambda name=name, user_task=user_task, injection_task=injection_task: _task(
                    name, suite, version, user_task, attacker.attack(user_task, injection_task), injection_task.ID
                ),
            )


def _task(name: str, suite: str, version: str, user_task: Any, injections: dict[str, str], injection_task: str | None) -> Task:
    data: Json = {"suite": suite, "version": version, "user_task": user_task.ID, "injections": injections}
    task = Task(name, prompt=user_task.PROMPT, data=data)
    calls = [
        {"name": call.function, "arguments": msgspec.json.decode(msgspec.json.encode(dict(call.args)))}
        for call in user_task.ground_truth(fresh_environment(task))
    ]
    return Task(
        name,
        prompt=user_task.PROMPT,
        data=data,
        key={"calls": calls, "output": user_task.GROUND_TRUTH_OUTPUT, "injection_task": injection_task},
        rubric="default" if injection_task is None else "attacked",
        tags=(suite,) if injection_task is None else (suite, "attacked"),
    )


def _system_message() -> str:
    from agentdojo.agent_pipeline.agent_pipeline import load_system_message  # noqa: PLC0415 - as above

    return load_system_message(None)
