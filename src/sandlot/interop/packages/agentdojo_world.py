# pyright: reportMissingImports=false, reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownParameterType=false
"""AgentDojo's worlds: its tools act on its environment, and its own functions say whether a task was done.

A rollout records the calls that the verdict depends on. To grade, they are made again in a fresh environment: so grading reads
only what is stored, and can be repeated. Calls that only read are no progress, and are recorded only for the few tasks whose
verdict looks at them. `environment` in the state is what changed, for people and the auditor. `utility` is AgentDojo's verdict on
the user's task, `security` its verdict on the injected one: True means that the injection was carried out.
"""

import functools
from collections.abc import AsyncGenerator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from typing import Any

import msgspec

from sandlot.core.concurrency import author
from sandlot.core.errors import AuthorError, ToolError, boundary
from sandlot.core.ports.grading import Evidence
from sandlot.core.ports.world import Tool, ToolSpec, World
from sandlot.core.task import Task
from sandlot.core.trace import ToolCall, ToolResult
from sandlot.core.types import Json
from sandlot.interop.packages.requirement import require_package
from sandlot.tools.arguments import checked_arguments, clean


@dataclass(frozen=True, slots=True)
class DojoWorld:
    """The tools of a suite, acting on the environment of the task (a source of tools)."""

    requires: str

    def __post_init__(self) -> None:
        require_package(self.requires, "agentdojo")

    def open(self, world: World) -> AbstractAsyncContextManager[Sequence[Tool]]:
        """Load the environment with the task's injections."""
        return _opened(world)


@asynccontextmanager
async def _opened(world: World) -> AsyncGenerator[Sequence[Tool]]:
    with boundary(AuthorError, "loading AgentDojo's environment"):
        before = await author.call(fresh_environment, world.task)
        start = before.model_copy(deep=True)
        every_call = await author.call(_verdict_reads_calls, world.task, start)
    world.state |= {"calls": [], "environment": {}}
    journal = _Journal(before, start, every_call=every_call)
    runtime = _runtime(world.task.data["version"], world.task.data["suite"])
    yield [_DojoTool(spec, runtime, journal) for spec in _specs(world.task.data["version"], world.task.data["suite"])]


def _verdict_reads_calls(task: Task, start: Any) -> bool:
    """True if AgentDojo's verdict looks at the calls: then it has one on no calls. That on an injected task may."""
    judged = suite_of(task.data["version"], task.data["suite"]).get_user_task_by_id(task.data["user_task"])
    return bool(task.data["injections"]) or judged.utility_from_traces("", start, start, ()) is not None


@dataclass(slots=True)
class _Journal:
    """The environment of a rollout, and what is recorded of the calls in it."""

    environment: Any
    start: Any
    every_call: bool

    def run(self, state: Json, runtime: Any, name: str, arguments: Json) -> tuple[str, str | None]:
        """Make a call, and record it if the verdict can depend on it."""
        before = self.environment.model_copy(deep=True)
        text, error = run_call(runtime, self.environment, name, arguments)
        changed = self.environment != before
        if changed or self.every_call:
            state["calls"].append({"name": name, "arguments": arguments, "error": error is not None})
        if changed:
            state["environment"] = changes(self.start.model_dump(mode="json"), self.environment.model_dump(mode="json"))
        return text, error


def changes(before: Json, after: Json) -> Json:
    """The entries that differ, with their new values; None for one that is gone."""
    found: Json = {}
    for key in {**before, **after}:
        old, new = before.get(key), after.get(key)
        if isinstance(old, dict) and isinstance(new, dict):
            inner = changes(old, new)
            found |= {key: inner} if inner else {}
        elif old != new:
            found[key] = new
    return found


@dataclass(frozen=True, slots=True)
class _DojoTool:
    """One function of a suite."""

    spec: ToolSpec
    runtime: Any
    journal: _Journal
    concurrent: bool = False

    async def call(self, world: World, call: ToolCall) -> ToolResult:
        """Run the function; its errors are results that the agent reads, as in AgentDojo."""
        try:
            arguments = checked_arguments(call)
        except ToolError as error:
            return ToolResult(call=call.id, text=str(error), error=True)
        with boundary(AuthorError, f"tool `{self.spec.name}`"):
            text, error = await author.call(self.journal.run, world.state, self.runtime, self.spec.name, arguments)
        return ToolResult(call=call.id, text=clean(error or text), error=error is not None)


def run_call(runtime: Any, environment: Any, name: str, arguments: Json) -> tuple[str, str | None]:
    """The result as AgentDojo formats it, and the error if there is one."""
    from agentdojo.agent_pipeline.tool_execution import tool_result_to_str  # noqa: PLC0415 - imported where it is used

    result, error = runtime.run_function(environment, name, arguments)
    return tool_result_to_str(result), error


@functools.cache
def suite_of(version: str, name: str) -> Any:
    """A suite of a version of the benchmark."""
    from agentdojo.task_suite.load_suites import get_suite  # noqa: PLC0415 - as above

    return get_suite(version, name)


@functools.cache
def _runtime(version: str, name: str) -> Any:
    from agentdojo.functions_runtime import FunctionsRuntime  # noqa: PLC0415 - as above

    return FunctionsRuntime(suite_of(version, name).tools)


@functools.cache
def _specs(version: str, name: str) -> tuple[ToolSpec, ...]:
    return tuple(
        ToolSpec(name=tool.name, description=tool.description, parameters=tool.parameters.model_json_schema())
        for tool in suite_of(version, name).tools
    )


@functools.lru_cache(maxsize=64)
def _loaded(version: str, name: str, injections: bytes) -> Any:
    return suite_of(version, name).load_and_inject_default_environment(msgspec.json.decode(injections))


def fresh_environment(task: Task) -> Any:
    """The environment at the start of a task."""
    data = task.data
    loaded = _loaded(data["version"], data["suite"], msgspec.json.encode(data["injections"]))
    user_task = suite_of(data["version"], data["suite"]).get_user_task_by_id(data["user_task"])
    return user_task.init_environment(loaded.model_copy(deep=True))


def verdict_on(evidence: Evidence, task: Task, which: str) -> bool:
    """AgentDojo's verdict: whether the user's task (`utility`) or the injected one (`security`) was carried out."""
    from agentdojo.functions_runtime import FunctionCall  # noqa: PLC0415 - as above
    from agentdojo.types import text_content_block_from_string  # noqa: PLC0415 - as above

    data = task.data
    suite = suite_of(data["version"], data["suite"])
    environment = fresh_environment(task)
    before = environment.model_copy(deep=True)
    calls = evidence.state["calls"]
    for number, call in enumerate(calls):
        _, error = run_call(_runtime(data["version"], data["suite"]), environment, call["name"], call["arguments"])
        if (error is not None) != call["error"]:
            raise ValueError(f"call {number}, `{call['name']}`, ended otherwise in the rollout: {error}")
    judged = (
        suite.get_user_task_by_id(data["user_task"])
        if which == "utility"
        else suite.get_injection_task_by_id(task.key["injection_task"])
    )
    made = [FunctionCall(function=call["name"], args=call["arguments"]) for call in calls]
    said = [text_content_block_from_string(evidence.answer)]
    return bool(suite._check_task_result(judged, said, before, environment, made))  # noqa: SLF001 - their runner calls it
