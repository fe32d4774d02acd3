# pyright: reportMissingImports=false, reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
"""BFCL's multi-turn tasks: conversations over simulated APIs.

    bfcl:base      also `long_context`, `miss_param`, and `all` for the three

`miss_func` is left out: there tools appear during the conversation, and an environment's tools stay the same in a rollout.
"""

import ast
import inspect
import json
from importlib.resources import files
from pathlib import Path
from typing import Any

from sandlot.core.errors import ConfigError
from sandlot.core.ports.importer import ImportedTask, ImportReport, LeftOut
from sandlot.core.rubric import PythonCheck, Rubric
from sandlot.core.syntax import parse_python
from sandlot.core.task import Task
from sandlot.core.types import Json
from sandlot.interop.folder_writer import EnvironmentDraft, environment_name, write_environment
from sandlot.interop.packages.bfcl_world import methods_of
from sandlot.interop.packages.requirement import package_licence, package_version, require_package

_PACKAGE = "bfcl-eval"
_KINDS = ("base", "long_context", "miss_param")
_TURNS = 80
_WORLD = '''\
"""BFCL's simulated APIs."""

from sandlot.interop.packages.bfcl_world import BfclWorld

SOURCES = [BfclWorld("{requires}")]
'''
_USER = '''\
"""The user's messages, one after the other."""

from sandlot import World
from sandlot.interop.packages.bfcl_world import next_message


def reply(world: World, text: str) -> str | None:
    return next_message(world)
'''
_CHECKS = '''\
"""BFCL's own verdict on the calls of every turn."""

from sandlot import Evidence, Task
from sandlot.interop.packages.bfcl_world import is_valid


def valid(evidence: Evidence, task: Task) -> tuple[bool, str]:
    return is_valid(evidence, task)
'''
_SOLUTION = '''\
"""The calls that BFCL expects in every turn."""

from sandlot import Agent, Task


async def solve(agent: Agent, task: Task) -> None:
    for calls in task.key["calls"]:
        for call in calls:
            await agent.call(call["name"], **call["arguments"])
        await agent.say("done")
'''


class BfclImporter:
    """`bfcl:KIND` (port `Importer`)."""

    kind = "bfcl"

    def digest(self, source: str) -> str:  # noqa: ARG002 - the source is its name
        """Changes with the package."""
        return package_version(_PACKAGE)

    def write(self, source: str, folder: Path, *, limit: int | None) -> ImportReport:
        """Write the environment. A task whose expected calls are not plain calls is left out with the reason."""
        requires = f"{_PACKAGE}=={package_version(_PACKAGE)}"
        require_package(requires, "bfcl_eval")
        if source not in {*_KINDS, "all"}:
            raise ConfigError(f"`{source}`: BFCL's multi-turn tasks are: all, {', '.join(_KINDS)}")
        tasks: list[Task] = []
        left_out: list[LeftOut] = []
        for kind in _KINDS if source == "all" else (source,):
            for entry, expected in zip(_rows(kind), _rows(kind, "possible_answer"), strict=True):
                if limit is not None and len(tasks) >= limit:
                    break
                try:
                    tasks.append(_task(kind, entry, expected["ground_truth"]))
                except ConfigError as error:
                    left_out.append(LeftOut(what=entry["id"], why=str(error)))
        draft = EnvironmentDraft(
            name=environment_name(f"bfcl-{source}"),
            settings={"description": f"Multi-turn {source} of {requires}.", "concurrent": False, "limits": {"turns": _TURNS}},
            tasks=tasks,
            rubrics={"default": Rubric(checks=(PythonCheck(id="valid", ref="checks:valid", isolate=True),))},
            code={
                "world.py": _WORLD.format(requires=requires),
                "user.py": _USER,
                "checks.py": _CHECKS,
                "solution.py": _SOLUTION,
            },
        )
        write_environment(folder, draft)
        licence = package_licence(_PACKAGE)
        return ImportReport(
            kind=self.kind,
            source=source,
            package=_PACKAGE,
            version=package_version(_PACKAGE),
            tasks=tuple(ImportedTask(id=task.id, origin=task.id, licence=licence) for task in tasks),
            left_out=tuple(left_out),
            notes=(
                "miss_func is not offered: there tools appear during the conversation",
                "BFCL counts a model that errors or is stopped as not valid; here an error is a failure without a score",
            ),
        )


def _rows(kind: str, folder: str = "") -> list[Json]:
    text = (files("bfcl_eval") / "data" / folder / f"BFCL_v4_multi_turn_{kind}.json").read_text()
    return [json.loads(line) for line in text.splitlines() if line.strip()]


def _task(kind: str, entry: Json, expected: list[list[str]]) -> Task:
    methods = methods_of(entry)
    calls = [[_parsed(text, methods) for text in turn] for turn in expected]
    named = ("id", "question", "initial_config", "involved_classes", "excluded_function")
    kept = {name: entry[name] for name in named if name in entry}
    return Task(
        entry["id"],
        prompt=entry["question"][0][0]["content"],
        data={"entry": kept},
        key={"ground_truth": expected, "calls": calls},
        tags=(kind,),
    )


def _parsed(text: str, methods: dict[str, Any]) -> Json:
    """An expected call as a tool call: positional arguments get their names from the method."""
    try:
        call: Any = parse_python(text, "eval").body
        names = list(inspect.signature(methods[call.func.id]).parameters)
        arguments = {name: ast.literal_eval(value) for name, value in zip(names, call.args, strict=False)}
        arguments |= {str(each.arg): ast.literal_eval(each.value) for each in call.keywords}
    except (SyntaxError, TypeError, ValueError, KeyError, AttributeError) as error:
        raise ConfigError(f"its expected call `{text[:100]}` cannot be made by a tool: {error}") from error
    return {"name": call.func.id, "arguments": arguments}
