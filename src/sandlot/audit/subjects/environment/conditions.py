"""Applies conditions in a worker, before any author code is loaded: clock, network, random generators, and faults.

Everything here changes the whole process, so it is called only in workers.
"""

import asyncio
import socket
import time
from collections.abc import Sequence
from contextvars import ContextVar
from typing import Any
from urllib.parse import urlsplit

import anyio

from sandlot.audit.subject import Conditions
from sandlot.audit.subjects.foreign.inside.sandlot_surroundings import seed_generators, shift_clock
from sandlot.core.errors import GradeError
from sandlot.core.ports.grading import Judge, Judgement
from sandlot.core.ports.sandbox import Completed
from sandlot.core.ports.world import Tool, World
from sandlot.core.trace import ToolCall, ToolResult
from sandlot.env.environment import Environment
from sandlot.env.world import LiveWorld
from sandlot.grade.evidence import StoredEvidence
from sandlot.model.endpoint.secret import split_replicas

_STRETCH = 100.0
"""Factor by which waits in a slow tool take longer."""
_LONGEST_S = 5.0

ATTEMPTED: list[str] = []
"""Hosts that author code tried to reach since the trial began."""
_IN_TOOL: ContextVar[bool] = ContextVar("in_tool", default=False)
"""True while a tool runs: faults affect tools only, never setup."""


def apply_conditions(conditions: Conditions, models: Sequence[str] = ()) -> None:
    """Set clock and network of this process. Hash seed, time zone and locale were set before it started.

    The hosts of `models` (the judge, the user) stay reachable: they are not part of the environment.
    """
    if conditions.clock_shift_s:
        shift_clock(conditions.clock_shift_s)
    if not conditions.network:
        urls = ("http" + each.partition("@http")[2] for spec in models for each in split_replicas(spec))
        hosts = (urlsplit(url).hostname for url in urls)
        _deny_network({host for host in hosts if host})


def reseed(conditions: Conditions, place: int) -> None:
    """Seed the global generators if the conditions say so; each trial has another seed."""
    if conditions.random_seed is not None:
        seed_generators(conditions.random_seed + place)


def _deny_network(reachable: set[str]) -> None:
    connect, look_up = socket.socket.connect, socket.getaddrinfo
    known = set(reachable)

    def refused(self: socket.socket, address: Any) -> None:
        if self.family in {socket.AF_INET, socket.AF_INET6} and address[0] not in known:
            ATTEMPTED.append(f"{address[0]}:{address[1]}")
            raise OSError(101, f"the network is off in this trial; the code tried to reach {address!r}")
        connect(self, address)

    def unknown(host: Any, *args: Any, **kwargs: Any) -> Any:
        if host in {"localhost", "127.0.0.1", "::1", None, *reachable}:
            found = look_up(host, *args, **kwargs)
            known.update(str(entry[4][0]) for entry in found if host in reachable)
            return found
        ATTEMPTED.append(str(host))
        raise socket.gaierror(-3, f"the network is off in this trial; the code tried to resolve {host!r}")

    setattr(socket.socket, "connect", refused)  # noqa: B010 - as above
    setattr(socket, "getaddrinfo", unknown)  # noqa: B010 - as above


# -- faults ------------------------------------------------------------------------------------------------------------


def break_environment(env: Environment, fault: str | None) -> None:
    """Inject a fault below the environment's tools or checks."""
    what, _, how = (fault or "").partition(":")
    if fault == "tool:slow":
        _slow_tools(env)
    elif fault == "tool:refuse":
        _refuse_tools(env)
    elif what == "tool":
        _break_tools(env, how)
    elif what == "check":
        _break_evidence()


def broken_judge(judge: Judge | None, fault: str | None) -> Judge | None:
    """The judge, or one that fails if the fault says so."""
    what, _, how = (fault or "").partition(":")
    return _BrokenJudge(how) if judge is not None and what == "judge" else judge


class _Watched:
    """A tool that marks when it runs."""

    def __init__(self, tool: Tool) -> None:
        self._tool = tool
        self.spec = tool.spec
        self.concurrent = tool.concurrent

    async def call(self, world: World, call: ToolCall) -> ToolResult:
        """Call the tool, with faults below it."""
        token = _IN_TOOL.set(True)
        try:
            return await self._tool.call(world, call)
        finally:
            _IN_TOOL.reset(token)


class _Refusing:
    """A tool that answers every call with an error and does nothing."""

    def __init__(self, tool: Tool) -> None:
        self.spec = tool.spec
        self.concurrent = tool.concurrent

    async def call(self, world: World, call: ToolCall) -> ToolResult:  # noqa: ARG002 - the interface
        """Refuse."""
        return ToolResult(call=call.id, text=f"Error: `{call.name}` is out of order.", error=True)


class _BrokenWorld(LiveWorld):
    """A world whose files and commands fail while a tool runs."""

    how = "raise"

    async def _fail_in_tool(self, what: str) -> None:
        if _IN_TOOL.get() and self.how == "hang":
            await anyio.sleep_forever()
        if _IN_TOOL.get():
            raise OSError(5, f"injected by the audit: {what} failed")

    async def read(self, path: str) -> bytes:
        """Read a file, with the fault."""
        await self._fail_in_tool("reading")
        return await super().read(path)

    async def write(self, path: str, data: bytes | str) -> None:
        """Write a file, with the fault."""
        await self._fail_in_tool("writing")
        await super().write(path, data)

    async def list(self, folder: str = "/") -> Sequence[str]:
        """List files, with the fault."""
        await self._fail_in_tool("listing")
        return await super().list(folder)

    async def exec(self, command: str, **options: Any) -> Completed:
        """Run a command, with the fault."""
        await self._fail_in_tool("running a command")
        return await super().exec(command, **options)


def _slow_tools(env: Environment) -> None:
    """Make waits in tools much longer."""
    sleep, anyio_sleep, asyncio_sleep = time.sleep, anyio.sleep, asyncio.sleep

    def stretched(seconds: float) -> float:
        return min(seconds * _STRETCH, _LONGEST_S) if _IN_TOOL.get() else seconds

    async def slow(delay: float, *args: Any) -> Any:
        return await asyncio_sleep(stretched(delay), *args)

    async def slow_anyio(delay: float) -> None:
        await anyio_sleep(stretched(delay))

    def slow_thread(seconds: float) -> None:
        sleep(stretched(seconds))

    setattr(time, "sleep", slow_thread)  # noqa: B010 - as above
    setattr(asyncio, "sleep", slow)  # noqa: B010 - as above
    setattr(anyio, "sleep", slow_anyio)  # noqa: B010 - as above
    env.marked.tools = [_Watched(tool) for tool in env.marked.tools]


def _break_tools(env: Environment, how: str) -> None:
    class Broken(_BrokenWorld):
        pass

    Broken.how = how
    make = env.new_world

    def broken(task: Any, files: Any, seed: int) -> LiveWorld:
        world = make(task, files, seed)
        return Broken(state=world.state, task=world.task, rng=world.rng, files=world.files, written=world.written)

    setattr(env, "new_world", broken)  # noqa: B010 - this one environment's, not the class's
    env.marked.tools = [_Watched(tool) for tool in env.marked.tools]


def _refuse_tools(env: Environment) -> None:
    """All its tools refuse, `bash` and those of its apps too."""
    env.__class__ = type("_RefusingEnvironment", (type(env),), {"tools": [_Refusing(tool) for tool in env.tools]})


def _break_evidence() -> None:
    def unreadable(self: StoredEvidence, path: str, *_: Any, **__: Any) -> Any:  # noqa: ARG001 - any evidence
        raise OSError(5, f"injected by the audit: `{path}` could not be read from the evidence")

    for name in ("read", "read_text"):
        if hasattr(StoredEvidence, name):
            setattr(StoredEvidence, name, unreadable)


class _BrokenJudge:
    """A judge that fails or hangs."""

    name = "broken by the audit"

    def __init__(self, how: str) -> None:
        self._how = how

    async def ask(self, *_asked: object, **_more: object) -> Judgement:
        """Fail, or hang."""
        if self._how == "hang":
            await anyio.sleep_forever()
        raise GradeError("injected by the audit: the judge gave no verdict", kind="unparsable")
