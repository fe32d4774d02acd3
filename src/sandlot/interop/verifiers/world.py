"""A rollout of an environment of `verifiers`, played by an agent of ours.

The environment's own `rollout` runs in the other process. Each message of our agent, with all its calls, is handed to it; what it
answers becomes the results of the calls, or the reply of the user. When our rollout ends, the environment's rubric scores its own
state, and the reward is recorded. Where it raises, where a reward function fails, or where its own time limit ends the rollout,
there is no reward: `verifiers` itself would give 0.
"""

import functools
import json
import math
from collections.abc import AsyncGenerator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import anyio
import anyio.to_thread
import msgspec

from sandlot.core.concurrency import author
from sandlot.core.errors import AuthorError, ConfigError, GradeError, boundary
from sandlot.core.ports.grading import Evidence
from sandlot.core.ports.world import ShowsTurns, Tool, ToolSpec, World
from sandlot.core.trace import Message, Reasoning, ToolCall, ToolResult
from sandlot.core.types import Json, digest
from sandlot.interop.package_process import PackageProcess, RunningPrograms, ServedRollout, package_version_of
from sandlot.interop.verifiers.source import VerifiersSource
from sandlot.tools.arguments import clean

PACKAGE = "verifiers"
PROGRAM = Path(__file__).parents[1] / "inside" / "serve_verifiers.py"
LOAD_S = 600.0
"""Maximum time to import the package and to load an environment with its data."""
_MOVE_S = 120.0
"""Maximum time for the environment's answer to one message."""
_SCORE_S = 240.0
"""Maximum time for its rubric; its own verification of mathematics may take 120 s."""
_MAX_CALLS = 64
_OVER = "The task is over; nothing more can be done. Say that you are done."
_SETTINGS = {
    "HF_HUB_OFFLINE": "1",
    "HF_DATASETS_OFFLINE": "1",
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "TOKENIZERS_PARALLELISM": "false",
}


class ShownMessage(msgspec.Struct, frozen=True):
    """A message of the environment."""

    role: str
    text: str
    call: str = ""
    """The call that it answers."""
    calls: int = 0
    """Calls in it, if it is an assistant's."""


class ShownTool(msgspec.Struct, frozen=True):
    """A tool of the environment."""

    name: str
    description: str = ""
    parameters: Json = {}


class RolloutOpening(msgspec.Struct, frozen=True):
    """The messages that a rollout begins with, and its tools."""

    messages: tuple[ShownMessage, ...]
    tools: tuple[ShownTool, ...] = ()

    @property
    def stamp(self) -> str:
        """Changes with the messages and the tools."""
        return digest(msgspec.json.encode(self, order="deterministic"))[:32]


class _Reply(msgspec.Struct, frozen=True):
    messages: tuple[ShownMessage, ...]
    over: bool


class RubricReward(msgspec.Struct, frozen=True):
    """What the environment's rubric gave."""

    reward: float
    metrics: dict[str, float]
    stop: str = ""


def start_environment(source: VerifiersSource) -> tuple[PackageProcess, Json]:
    """Start the environment's process and load the environment; what it says about itself comes with it."""
    process = PackageProcess(
        source.python, PROGRAM, cwd=Path(source.cwd) if source.cwd else None, variables=source.variables, settings=_SETTINGS
    )
    try:
        facts = process.ask("load", within_s=LOAD_S, name=source.module, path=source.path, arguments=source.arguments)
    except AuthorError:
        process.close()
        raise
    return process, facts


_processes = RunningPrograms[PackageProcess]()


@functools.lru_cache(maxsize=8)
def _rows(file: Path, changed: float) -> list[bytes]:  # noqa: ARG001 - another time is another file
    return file.read_bytes().splitlines()


def _row(file: Path, number: int) -> Json:
    return msgspec.json.decode(_rows(file, file.stat().st_mtime)[number])


@dataclass(frozen=True, slots=True)
class VerifiersWorld:
    """The environment's rollout as a source of tools (`SOURCES` in `world.py`)."""

    source: Json
    """The fields of `VerifiersSource`."""
    requires: str
    rows: str
    """The file of the rows that the tasks come from."""

    def open(self, world: World) -> AbstractAsyncContextManager[Sequence[Tool]]:
        """Begin the rollout of the task's row."""
        return _opened(self, world)


@dataclass(slots=True)
class _Played:
    """A rollout in progress, and how much of it the environment has seen."""

    served: ServedRollout
    num_sent: int = 0
    over: bool = False
    reply: _Reply | None = None
    lock: anyio.Lock = field(default_factory=anyio.Lock)

    async def catch_up(self, turns: Sequence[Message]) -> _Reply | None:
        """Send the messages that the environment has not seen; its reply to the last one, None if it was over before that."""
        async with self.lock:
            while self.num_sent < len(turns):
                message = turns[self.num_sent]
                self.num_sent += 1
                self.reply = None
                if not self.over:
                    reply: _Reply = await author.call(self._move, message)
                    self.reply, self.over = reply, reply.over
            return self.reply

    def _move(self, message: Message) -> _Reply:
        calls = [{"id": call.id, "name": call.name, "arguments": _raw(call)} for call in message.calls[:_MAX_CALLS]]
        thoughts = "\n".join(part.text for part in message.parts if isinstance(part, Reasoning))
        sent = {"text": clean(message.text), "reasoning": clean(thoughts), "calls": calls}
        return msgspec.convert(self.served.ask("move", message=sent), _Reply)

    async def score(self) -> Json:
        """The rubric's reward, or why there is none."""
        try:
            answer = await author.call(self.served.ask, "finish", within_s=_SCORE_S)
            return msgspec.to_builtins(msgspec.convert(answer, RubricReward))
        except (AuthorError, msgspec.ValidationError) as error:
            return {"failed": str(error)}


def _raw(call: ToolCall) -> str:
    """The arguments as the model wrote them."""
    return call.malformed if call.malformed is not None else json.dumps(call.arguments)


_played: dict[int, _Played] = {}
"""The rollouts that are open, by the identity of their worlds."""


@asynccontextmanager
async def _opened(source: VerifiersWorld, world: World) -> AsyncGenerator[Sequence[Tool]]:
    named = msgspec.convert(source.source, VerifiersSource)
    played = await author.call(_begin, source, named)
    opening, row = None, world.task.data["row"]
    try:
        with boundary(AuthorError, f"the rollout of row {row}"):
            content = await author.call(_row, Path(source.rows), row)
            answer = await author.call(played.served.ask, "begin", row=content)
            opening = msgspec.convert(answer, RolloutOpening)
        if opening.stamp != world.task.data["opening"]:
            raise AuthorError(
                f"the rollout of row {row} begins with other messages or tools than when it was imported; "
                "the environment draws at random, or its settings have changed"
            )
        _played[id(world)] = played
        yield [_ForeignTool(_spec(tool), played) for tool in opening.tools]
    finally:
        _played.pop(id(world), None)
        with anyio.CancelScope(shield=True):
            await anyio.to_thread.run_sync(played.served.drop)


def _begin(source: VerifiersWorld, named: VerifiersSource) -> _Played:
    found = _version(named.python)
    if f"{PACKAGE}=={found}" != source.requires:
        raise ConfigError(
            f"this environment was imported with {source.requires}, and `{named.python}` has {found}; import it again"
        )
    return _Played(ServedRollout(_processes.running(named, lambda: start_environment(named)[0]), _MOVE_S))


@functools.cache
def _version(python: str) -> str:
    return package_version_of(python, PACKAGE)


def _spec(tool: ShownTool) -> ToolSpec:
    parameters = tool.parameters or {"type": "object", "properties": {}}
    return ToolSpec(name=tool.name, description=tool.description, parameters=parameters)


@dataclass(frozen=True, slots=True)
class _ForeignTool:
    """A tool of the environment. The first call of a turn hands over the whole turn; the others wait for the same answer."""

    spec: ToolSpec
    played: _Played
    concurrent: bool = True

    async def call(self, world: World, call: ToolCall) -> ToolResult:
        """What the environment answers to this call."""
        reply = await self.played.catch_up(_turns(world))
        if reply is None:
            return ToolResult(call=call.id, text=_OVER, error=True)
        own = [message.text for message in reply.messages if message.call == call.id]
        if not own and not reply.over:
            raise AuthorError(f"the environment did not answer the call `{call.id}` of `{call.name}`")
        last = call.id == _turns(world)[-1].calls[:_MAX_CALLS][-1].id
        rest = [message.text for message in reply.messages if not message.call] if last else []
        return ToolResult(call=call.id, text=clean("\n\n".join([*own, *rest, *([_OVER] if reply.over else [])])))


def _turns(world: World) -> Sequence[Message]:
    assert isinstance(world, ShowsTurns)
    return world.turns


async def next_message(world: World) -> str | None:
    """The environment's reply to a message without calls; None if its rollout is over."""
    reply = await _played[id(world)].catch_up(_turns(world))
    if reply is None or reply.over:
        return None
    return clean("\n\n".join(message.text for message in reply.messages))


async def record_reward(world: World) -> None:
    """Let the environment's rubric score the rollout, and record what it gives."""
    played = _played[id(world)]
    try:
        await played.catch_up(_turns(world))
    except AuthorError as error:
        world.state["rubric"] = {"failed": str(error)}
        return
    world.state["rubric"] = await played.score()


def score_of_rubric(evidence: Evidence, low: float, high: float) -> tuple[float, str]:
    """The reward on the scale from `low` to `high`. A reward outside of it raises: nothing is clipped."""
    found = evidence.state["rubric"]
    if "failed" in found:
        raise GradeError(str(found["failed"]))
    given = msgspec.convert(found, RubricReward)
    if not math.isfinite(given.reward) or not low - 1e-9 <= given.reward <= high + 1e-9:
        raise GradeError(
            f"the reward {given.reward:g} is outside of {low:g}..{high:g}; import with `score=LOW..HIGH`", kind="bad_value"
        )
    functions = ", ".join(f"{name} {value:g}" for name, value in sorted(given.metrics.items()))
    value = (given.reward - low) / (high - low)
    return min(max(value, 0.0), 1.0), f"reward {given.reward:g}: {functions}"[:500]
