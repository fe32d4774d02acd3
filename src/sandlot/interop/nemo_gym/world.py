"""A rollout at a resources server of NeMo Gym: its tools, and its `/verify` on everything that the agent wrote.

The server runs in the other process. When our rollout ends, the agent's messages and the results of its calls are sent to
`/verify` as a response of the OpenAI Responses format, as NeMo Gym's simple agent does. Where the server raises, there is no
reward.
"""

import functools
import json
import math
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import msgspec

from sandlot.core.concurrency import author
from sandlot.core.errors import AuthorError, ConfigError, GradeError, ToolError, boundary
from sandlot.core.ports.grading import Evidence
from sandlot.core.ports.world import ShowsTurns, Tool, ToolSpec, World
from sandlot.core.trace import Message, ToolCall, ToolResult
from sandlot.core.types import Json
from sandlot.interop.package_process import PackageProcess, RunningPrograms, ServedRollout, package_version_of
from sandlot.interop.untrusted import source_digest
from sandlot.tools.arguments import checked_arguments, clean

PACKAGE = "nemo-gym"
PROGRAM = Path(__file__).parents[1] / "inside" / "serve_nemo_gym.py"
LOAD_S = 300.0
"""Maximum time to import the package and to make the server."""
CALL_S = 120.0
"""Maximum time for one answer of the server."""


class ResourcesSource(msgspec.Struct, frozen=True, kw_only=True):
    """A resources server, and the Python that runs it."""

    folder: str
    python: str
    config: str = ""
    """A file of its folder `configs`; empty if there is none."""


class _Called(msgspec.Struct, frozen=True):
    text: str
    refused: bool


class _Verified(msgspec.Struct, frozen=True):
    reward: float


def start_server(source: ResourcesSource) -> tuple[PackageProcess, Json]:
    """Start the server's process; what the server says about itself comes with it."""
    process = PackageProcess(source.python, PROGRAM, cwd=Path(source.folder))
    try:
        facts = process.ask("load", within_s=LOAD_S, folder=source.folder, config=source.config)
    except AuthorError:
        process.close()
        raise
    return process, facts


_processes = RunningPrograms[PackageProcess]()


def _server(source: ResourcesSource, requires: str, digest: str) -> PackageProcess:
    """The process of a server."""

    def start() -> PackageProcess:
        found = package_version_of(source.python, PACKAGE)
        if f"{PACKAGE}=={found}" != requires:
            raise ConfigError(
                f"this environment was imported with {requires}, and `{source.python}` has {found}; import it again"
            )
        if source_digest(source.folder) != digest:
            raise ConfigError(f"the files in `{source.folder}` have changed since the server was imported; import it again")
        return start_server(source)[0]

    return _processes.running(source, start)


@functools.lru_cache(maxsize=8)
def _rows(file: Path, changed: float) -> list[bytes]:  # noqa: ARG001 - another time is another file
    return file.read_bytes().splitlines()


@dataclass(frozen=True, slots=True)
class ResourcesWorld:
    """The tools of a task at the server (`SOURCES` in `world.py`)."""

    source: Json
    """The fields of `ResourcesSource`."""
    requires: str
    digest: str
    """A hash of the files of the server's folder."""
    rows: Path
    """The file of the rows that the tasks come from."""

    def open(self, world: World) -> AbstractAsyncContextManager[Sequence[Tool]]:
        """Open a session for the task's row."""
        return _opened(self, world)


@dataclass(slots=True)
class _Session:
    """A rollout in progress."""

    served: ServedRollout
    row: Json
    results: dict[tuple[int, int], str] = field(default_factory=dict[tuple[int, int], str])
    """What calls returned, by the agent's message and the place in it: the ids of calls may repeat."""


_sessions: dict[int, _Session] = {}
"""The rollouts that are open, by the identity of their worlds."""


@asynccontextmanager
async def _opened(source: ResourcesWorld, world: World) -> AsyncGenerator[Sequence[Tool]]:
    named = msgspec.convert(source.source, ResourcesSource)
    number: int = world.task.data["row"]
    row: Json = msgspec.json.decode(_rows(source.rows, source.rows.stat().st_mtime)[number])
    with boundary(AuthorError, "starting NeMo Gym's server"):
        session = _Session(ServedRollout(await author.call(_server, named, source.requires, source.digest), CALL_S), row)
    try:
        with boundary(AuthorError, f"opening a session for row {number}"):
            await author.call(session.served.ask, "begin", row=row)
        _sessions[id(world)] = session
        yield [_ResourcesTool(spec, session) for spec in tools_of(row)]
    finally:
        _sessions.pop(id(world), None)
        with anyio.CancelScope(shield=True):
            await anyio.to_thread.run_sync(session.served.drop)


def tools_of(row: Json) -> list[ToolSpec]:
    """The tools that a row offers; `ConfigError` for one that is no function."""
    specs: list[ToolSpec] = []
    for tool in row["responses_create_params"].get("tools") or ():
        if tool.get("type") != "function":
            raise ConfigError(f"it has a tool of type `{tool.get('type')}`; only functions can be called")
        parameters: Json = tool.get("parameters") or {"type": "object", "properties": {}}
        specs.append(ToolSpec(name=tool["name"], description=tool.get("description") or "", parameters=parameters))
    return specs


@dataclass(frozen=True, slots=True)
class _ResourcesTool:
    """An endpoint of the server."""

    spec: ToolSpec
    session: _Session
    concurrent: bool = False

    async def call(self, world: World, call: ToolCall) -> ToolResult:
        """Ask the endpoint. A refusal is a result."""
        assert isinstance(world, ShowsTurns)
        place = place_of(call, world.turns)
        try:
            arguments = checked_arguments(call)
        except ToolError as error:
            self.session.results[place] = str(error)
            return ToolResult(call=call.id, text=str(error), error=True)
        with boundary(AuthorError, f"the tool `{self.spec.name}`"):
            given = await author.call(self.session.served.ask, "call", name=self.spec.name, arguments=arguments)
            called = msgspec.convert(given, _Called)
        self.session.results[place] = called.text
        return ToolResult(call=call.id, text=clean(called.text), error=called.refused)


def place_of(call: ToolCall, turns: Sequence[Message]) -> tuple[int, int]:
    """The number of the agent's message that has this very call, and the place among its calls."""
    places = ((turn, place) for turn in reversed(range(len(turns))) for place in range(len(turns[turn].calls)))
    return next((turn, place) for turn, place in places if turns[turn].calls[place] is call)


def response_of(turns: Sequence[Message], results: Mapping[tuple[int, int], str]) -> Json:
    """The agent's messages and the results of its calls (`place_of`), as a response of the OpenAI Responses format."""
    output: list[Any] = []
    for number, message in enumerate(turns):
        if message.text or not message.calls:
            content: list[Json] = [{"type": "output_text", "text": clean(message.text), "annotations": []}]
            item: Json = {
                "type": "message",
                "id": f"msg_{number}",
                "role": "assistant",
                "status": "completed",
                "content": content,
            }
            output.append(item)
        for place, call in enumerate(message.calls):
            raw = call.malformed if call.malformed is not None else json.dumps(call.arguments)
            output.append(
                {"type": "function_call", "call_id": f"call_{number}_{place}", "name": call.name, "arguments": clean(raw)}
            )
        output += [
            {
                "type": "function_call_output",
                "call_id": f"call_{number}_{place}",
                "output": clean(results.get((number, place), "no such tool")),
            }
            for place in range(len(message.calls))
        ]
    return {
        "id": "sandlot",
        "object": "response",
        "created_at": 0,
        "model": "sandlot",
        "output": output,
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
    }


async def record_reward(world: World) -> None:
    """Let the server verify the rollout, and record its reward."""
    assert isinstance(world, ShowsTurns)
    session = _sessions[id(world)]
    try:
        response = response_of(world.turns, session.results)
        given = await author.call(session.served.ask, "verify", row=session.row, response=response)
        world.state["verified"] = msgspec.to_builtins(msgspec.convert(given, _Verified))
    except (AuthorError, msgspec.ValidationError) as error:
        world.state["verified"] = {"failed": str(error)}


def score_of_verify(evidence: Evidence, low: float, high: float) -> tuple[float, str]:
    """The reward on the scale from `low` to `high`. A reward outside of it raises: nothing is clipped."""
    found = evidence.state["verified"]
    if "failed" in found:
        raise GradeError(str(found["failed"]))
    reward = found["reward"]
    if not math.isfinite(reward) or not low <= reward <= high:
        raise GradeError(
            f"the reward {reward:g} is outside of {low:g}..{high:g}; import with `score=LOW..HIGH`", kind="bad_value"
        )
    return (reward - low) / (high - low), f"reward {reward:g}"
