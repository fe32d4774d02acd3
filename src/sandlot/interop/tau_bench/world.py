"""A rollout of a task of tau-bench, with its own tools, database and reward, in a process of its own.

The user is a persona of ours, played by a model (`--user MODEL`), with the task's instruction. When the rollout ends, tau-bench's
own `calculate_reward` compares the database with the one that the task's actions give, and looks for the task's outputs in what
the agent said. As in tau-bench, a conversation that neither the user nor a transfer to a person has ended scores 0.
"""

from collections.abc import AsyncGenerator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import anyio
import anyio.to_thread
import msgspec

from sandlot.core.concurrency import author
from sandlot.core.errors import AuthorError, ConfigError, GradeError, ToolError, boundary
from sandlot.core.ports.grading import Evidence
from sandlot.core.ports.world import ShowsTurns, Tool, ToolSpec, World
from sandlot.core.trace import ToolCall, ToolResult
from sandlot.core.types import End, Json
from sandlot.interop.package_process import PackageProcess, RunningPrograms, ServedRollout
from sandlot.interop.tau_bench.source import TauBenchSource
from sandlot.interop.untrusted import source_digest
from sandlot.tools.arguments import checked_arguments, clean

PROGRAM = Path(__file__).parents[1] / "inside" / "serve_tau_bench.py"
LOAD_S = 120.0
"""Maximum time to import a domain and its data."""
CALL_S = 150.0
"""Maximum time for one answer. The program's own limit for a rollout is shorter, and ends only that rollout."""
CLOSING = "Everything that I can do for you has been done. Is there anything else?"
"""What the golden solution says at the end. A persona without a model takes it for the end (`--user scripted:persona`)."""
_OVER = "You have transferred the user to a person. The conversation is over; say that you are done."


class _Answer(msgspec.Struct, frozen=True):
    text: str
    over: bool


class _Verdict(msgspec.Struct, frozen=True):
    reward: float
    missing: list[str]


def start_domain(source: TauBenchSource) -> tuple[PackageProcess, Json]:
    """Start the process of a domain; its tools, its policy and its tasks come with it."""
    process = PackageProcess(source.python, PROGRAM)
    try:
        facts = process.ask("load", within_s=LOAD_S, folder=source.folder, domain=source.domain, split=source.split)
    except AuthorError:
        process.close()
        raise
    return process, facts


_processes = RunningPrograms[PackageProcess]()


def _domain(source: TauBenchSource, digest: str) -> PackageProcess:
    """The process of a domain."""

    def start() -> PackageProcess:
        if source_digest(Path(source.folder) / "tau_bench") != digest:
            raise ConfigError(f"the files in `{source.folder}` have changed since they were imported; import them again")
        return start_domain(source)[0]

    return _processes.running(source, start)


@dataclass(frozen=True, slots=True)
class TauBenchWorld:
    """The domain's tools and database (`SOURCES` in `world.py`)."""

    source: Json
    """The fields of `TauBenchSource`."""
    digest: str
    """A hash of the files that were imported."""
    tools: Path
    """The file with the tools."""

    def open(self, world: World) -> AbstractAsyncContextManager[Sequence[Tool]]:
        """Begin the task with a fresh database."""
        return _opened(self, world)


@dataclass(slots=True)
class _Played:
    """A rollout in progress."""

    served: ServedRollout
    over_after: int | None = None
    """The number of the agent's messages when it transferred the user to a person."""


_played: dict[int, _Played] = {}
"""The rollouts that are open, by the identity of their worlds."""


@asynccontextmanager
async def _opened(source: TauBenchWorld, world: World) -> AsyncGenerator[Sequence[Tool]]:
    named = msgspec.convert(source.source, TauBenchSource)
    with boundary(AuthorError, "starting tau-bench"):
        played = _Played(ServedRollout(await author.call(_domain, named, source.digest), CALL_S))
    try:
        with boundary(AuthorError, f"beginning task {world.task.data['index']}"):
            await author.call(played.served.ask, "begin", index=world.task.data["index"])
        _played[id(world)] = played
        specs = msgspec.json.decode(source.tools.read_bytes(), type=list[ToolSpec])
        yield [_DomainTool(spec, played) for spec in specs]
    finally:
        _played.pop(id(world), None)
        with anyio.CancelScope(shield=True):
            await anyio.to_thread.run_sync(played.served.drop)


@dataclass(frozen=True, slots=True)
class _DomainTool:
    """A tool of the domain."""

    spec: ToolSpec
    played: _Played
    concurrent: bool = False

    async def call(self, world: World, call: ToolCall) -> ToolResult:
        """What tau-bench's tool answers; its errors are answers, as there."""
        if self.played.over_after is not None:
            return ToolResult(call=call.id, text=_OVER, error=True)
        try:
            arguments = checked_arguments(call)
        except ToolError as error:
            return ToolResult(call=call.id, text=str(error), error=True)
        with boundary(AuthorError, f"the tool `{self.spec.name}`"):
            given = await author.call(self.played.served.ask, "call", said=_said(world), name=self.spec.name, arguments=arguments)
            answer = msgspec.convert(given, _Answer)
        if answer.over:
            self.played.over_after = _num_turns(world)
        return ToolResult(call=call.id, text=clean(answer.text), error=answer.text.startswith("Error"))


def _num_turns(world: World) -> int:
    assert isinstance(world, ShowsTurns)
    return len(world.turns)


def _said(world: World, until: int | None = None) -> list[str]:
    """What the agent has said to the user. As in tau-bench, the text of a message with calls is not said."""
    assert isinstance(world, ShowsTurns)
    return [clean(message.text) for message in world.turns[:until] if not message.calls]


async def record_reward(world: World) -> None:
    """Let tau-bench compute the reward, and record it."""
    played = _played[id(world)]
    try:
        given = await author.call(played.served.ask, "finish", said=_said(world, played.over_after))
        verdict = msgspec.to_builtins(msgspec.convert(given, _Verdict))
    except (AuthorError, msgspec.ValidationError) as error:
        verdict = {"failed": str(error)}
    world.state["tau_bench"] = verdict | {"transferred": played.over_after is not None}


def score_of_task(evidence: Evidence) -> tuple[float, str]:
    """tau-bench's reward, 0 or 1."""
    found = evidence.state["tau_bench"]
    if "failed" in found:
        raise GradeError(str(found["failed"]))
    if found["reward"] not in {0.0, 1.0}:
        raise GradeError(f"the reward {found['reward']!r} is neither 0 nor 1", kind="bad_value")
    if not found["transferred"] and evidence.trace.end is not End.DONE:
        return 0.0, "the user did not end the conversation"
    missing = "; it did not say " + ", ".join(map(repr, found["missing"])) if found["missing"] else ""
    return found["reward"], f"reward {found['reward']:g}{missing}"[:500]
