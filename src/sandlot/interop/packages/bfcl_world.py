# pyright: reportMissingImports=false, reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
"""BFCL's simulated APIs: its own classes answer the calls, and its own checker judges them turn by turn.

The user's messages come one after the other: each time the agent answers without a call, the next one is sent. A rollout records
the calls of every turn. BFCL's checker makes them again beside the expected ones and compares states and results. It evaluates
calls as Python text: here that text is written from the name of a tool and JSON arguments, so an argument cannot be code.
"""

import copy
import functools
import inspect
import json
from collections.abc import AsyncGenerator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from importlib import import_module
from importlib.resources import files
from typing import Any

from sandlot.core.concurrency import author
from sandlot.core.errors import AuthorError, ToolError, boundary
from sandlot.core.ports.grading import Evidence
from sandlot.core.ports.world import Tool, ToolSpec, World
from sandlot.core.task import Task
from sandlot.core.trace import ToolCall, ToolResult
from sandlot.core.types import Json
from sandlot.interop.packages.requirement import require_package
from sandlot.tools.arguments import checked_arguments, clean

_TYPES = {"dict": "object", "float": "number", "tuple": "array"}
"""BFCL's names of types that JSON Schema calls otherwise."""


@dataclass(frozen=True, slots=True)
class BfclWorld:
    """The APIs of the task (a source of tools)."""

    requires: str

    def open(self, world: World) -> AbstractAsyncContextManager[Sequence[Tool]]:
        """Make the APIs as they are at the start of the task."""
        require_package(self.requires, "bfcl_eval")
        return _opened(world)


@asynccontextmanager
async def _opened(world: World) -> AsyncGenerator[Sequence[Tool]]:
    entry = world.task.data["entry"]
    with boundary(AuthorError, "making BFCL's APIs"):
        methods = await author.call(methods_of, entry)
    world.state["turns"] = [[]]
    excluded: list[str] = entry.get("excluded_function") or []
    specs = [spec for name in entry["involved_classes"] for spec in _specs(name) if spec.name not in excluded]
    yield [_ApiTool(spec, methods[spec.name]) for spec in specs]


def methods_of(entry: Json) -> dict[str, Any]:
    """The public methods of fresh APIs, by name."""
    from bfcl_eval.constants.executable_backend_config import (  # noqa: PLC0415 - imported where it is used
        CLASS_FILE_PATH_MAPPING,
        STATELESS_CLASSES,
    )

    methods: dict[str, Any] = {}
    for name in entry["involved_classes"]:
        api = getattr(import_module(CLASS_FILE_PATH_MAPPING[name]), name)()
        if name not in STATELESS_CLASSES:
            long_context = "long_context" in entry["id"]
            api._load_scenario(copy.deepcopy(entry["initial_config"].get(name, {})), long_context=long_context)  # noqa: SLF001
        methods |= {each: method for each, method in inspect.getmembers(api, inspect.ismethod) if not each.startswith("_")}
    return methods


@functools.cache
def _specs(name: str) -> tuple[ToolSpec, ...]:
    from bfcl_eval.constants.executable_backend_config import MULTI_TURN_FUNC_DOC_FILE_MAPPING  # noqa: PLC0415 - as above

    text = (files("bfcl_eval") / "data" / "multi_turn_func_doc" / MULTI_TURN_FUNC_DOC_FILE_MAPPING[name]).read_text()
    rows = [json.loads(line) for line in text.splitlines() if line.strip()]
    return tuple(
        ToolSpec(name=row["name"], description=row["description"], parameters=_schema(row["parameters"])) for row in rows
    )


def _schema(value: Any) -> Any:
    """BFCL's schema with the names of JSON Schema."""
    if isinstance(value, dict):
        return {
            key: _TYPES.get(item, item) if key == "type" and isinstance(item, str) else _schema(item)
            for key, item in value.items()
        }
    return [_schema(item) for item in value] if isinstance(value, list) else value


@dataclass(frozen=True, slots=True)
class _ApiTool:
    """One method of an API."""

    spec: ToolSpec
    method: Any
    concurrent: bool = False

    async def call(self, world: World, call: ToolCall) -> ToolResult:
        """Call the method; what it returns or raises is formatted as BFCL does."""
        try:
            arguments = checked_arguments(call)
        except ToolError as error:
            return ToolResult(call=call.id, text=str(error), error=True)
        world.state["turns"][-1].append([call_text(self.spec.name, arguments)])
        text, failed = await author.call(_answer, self.method, arguments)
        return ToolResult(call=call.id, text=clean(text), error=failed)


def call_text(name: str, arguments: Json) -> str:
    """A call as BFCL writes it."""
    return f"{name}({', '.join(f'{key}={value!r}' for key, value in arguments.items() if key.isidentifier())})"


def _answer(method: Any, arguments: Json) -> tuple[str, bool]:
    try:
        result = method(**arguments)
    except Exception as error:  # noqa: BLE001 - as in BFCL, an error of an API is its answer
        return f"Error during execution: {error}", True
    if isinstance(result, str):
        return result, False
    try:
        return (json.dumps(result) if isinstance(result, dict) else str(result)), False
    except (TypeError, ValueError):
        return str(result), False


def next_message(world: World) -> str | None:
    """The user's next message; None after the last."""
    turns, questions = world.state["turns"], world.task.data["entry"]["question"]
    if len(turns) >= len(questions):
        return None
    turns.append([])
    return questions[len(turns) - 1][0]["content"]


def is_valid(evidence: Evidence, task: Task) -> tuple[bool, str]:
    """BFCL's verdict. A conversation that ended before the user's last message is not valid, as in BFCL."""
    checker: Any = import_module("bfcl_eval.eval_checker.multi_turn_eval.multi_turn_checker")
    turns, expected = evidence.state["turns"], task.key["ground_truth"]
    if len(turns) != len(expected):
        return False, f"the conversation ended in turn {len(turns)} of {len(expected)}"
    entry = task.data["entry"]
    found = checker.multi_turn_checker(turns, expected, entry, entry["id"].rsplit("_", 1)[0], "sandlot")
    if found["valid"]:
        found = checker.multi_turn_irrelevance_checker(turns, expected)
    return bool(found["valid"]), str(found.get("error_message", "valid"))[:500]
