"""A command-line agent as a harness: it runs unmodified inside the rollout's sandbox, and every turn is captured.

Inside, the agent has an OpenAI and an Anthropic endpoint on its loopback, and no other network. The run's policy answers behind
them, so the trace has exact tokens as with any harness. The agent's own tools act in the sandbox; the environment's tools are
reached with the command `tool` (`tools.py`). The environment's limits hold, and the agent's exit ends the rollout. The end of its
stdout and stderr is kept.
"""

import tempfile
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import anyio.abc
from starlette.routing import Route

from sandlot.core.concurrency.clock import SYSTEM_CLOCK
from sandlot.core.errors import ConfigError, HarnessError, SandboxOutOfMemory, boundary, unwrapped
from sandlot.core.ports.sandbox import Command, Process, Sandbox, Stream
from sandlot.core.ports.session import Policy, Session, Workplace
from sandlot.core.trace import CAPTURED, Event, Trace
from sandlot.core.types import End, Json, Role
from sandlot.harness.captured.server import MODEL, CapturedConversation, capture_app
from sandlot.harness.captured.tools import FOLDER, open_tools
from sandlot.model.wire.listening import serve_app

_PORT = 8787
"""Port of the endpoints inside the sandbox."""
_KEPT_BYTES = 16 << 10
"""Bytes kept from the end of each output stream."""
_OUTPUT_BYTES = 64 << 20
"""Bytes of output that are read; the rest is dropped inside the sandbox."""
_MAX_PROMPT_BYTES = 100_000
"""What fits into one environment variable."""
_CONNECTIONS = 32
"""Connections of one agent that are open at the same time."""
_GRACE_S = 10.0
"""Longest wait for a killed agent to end."""


class CommandAgent:
    """Plays a rollout by running a command. `{prompt}` in it is replaced by the task's prompt, quoted."""

    def __init__(self, command: str, *, cwd: str = "/", user: str = "root") -> None:
        if not command.strip():
            raise ConfigError("the agent's command is empty; give one, such as `--agent-command 'mini -y -t {prompt}'`")
        self.command = command
        self.name = "command"
        self._cwd = cwd
        self._user = user

    async def play(self, session: Session, policy: Policy, trace: Trace) -> End:
        """Run the agent until it exits or reaches a limit."""
        if not isinstance(session, Workplace):
            raise HarnessError(f"a {type(session).__name__} has no sandbox in which an agent could run")
        sandbox = session.machine()
        opening = await session.reset()
        prompt = "\n\n".join(message.text for message in opening.messages if message.role in {Role.SYSTEM, Role.USER})
        conversation = CapturedConversation(trace, policy, session.count_turn)
        started, before = SYSTEM_CLOCK.monotonic(), trace.phases.get("model", 0.0)
        try:
            async with (
                open_tools(session, conversation, trace) as tools,
                _serve_endpoints(sandbox, conversation, tools.routes()),
            ):
                said = await self._run(sandbox, prompt + tools.prompt, conversation)
                tools.closed = True
        except SandboxOutOfMemory:
            trace.events.append(Event(kind="limit", turn=trace.num_turns, detail={"limit": End.MEMORY_LIMIT.value}))
            return End.MEMORY_LIMIT
        finally:
            spent = SYSTEM_CLOCK.monotonic() - started - (trace.phases.get("model", 0.0) - before)
            trace.phases["tools"] = trace.phases.get("tools", 0.0) + max(0.0, spent)
            _record_summary(trace, conversation)
        return _record_end(trace, conversation, said)

    async def _run(self, sandbox: Sandbox, prompt: str, conversation: CapturedConversation) -> "_AgentOutput":
        """Run the agent to its end; it is killed if the conversation is over before."""
        process = await sandbox.spawn(
            Command(
                argv=("/bin/sh", "-c", f"PATH=$PATH:{FOLDER}; " + self.command.replace("{prompt}", '"$SANDLOT_PROMPT"')),
                env=_agent_variables(prompt),
                cwd=self._cwd,
                user=self._user,
                stdin=b"",
                output_bytes=_OUTPUT_BYTES,
            )
        )
        said = _AgentOutput()
        try:
            async with anyio.create_task_group() as group:
                group.start_soon(_stop_when_over, conversation, process)
                async for name, data in process.output():
                    said.add(name, data)
                said.code = await process.wait()
                group.cancel_scope.cancel()
        except BaseExceptionGroup as wrapped:
            raise unwrapped(wrapped) from None
        finally:
            with anyio.move_on_after(_GRACE_S, shield=True):
                await process.kill()
        return said


class _AgentOutput:
    """The last output of a process, and its exit code."""

    def __init__(self) -> None:
        self.code: int | None = None
        self._pieces = {"stdout": b"", "stderr": b""}

    def add(self, name: str, data: bytes) -> None:
        """Add a piece of output."""
        self._pieces[name] = (self._pieces[name] + data)[-_KEPT_BYTES:]

    def text(self, name: str) -> str:
        """The end of one stream."""
        return self._pieces[name].decode("utf-8", "replace")


def _agent_variables(prompt: str) -> dict[str, str]:
    """The endpoints in the environment variables that the common client libraries read."""
    if len(prompt.encode()) > _MAX_PROMPT_BYTES:
        raise HarnessError(f"the task's prompt is over {_MAX_PROMPT_BYTES} bytes, too long for a command; put it into a file")
    base = f"http://127.0.0.1:{_PORT}"
    return {
        "OPENAI_BASE_URL": f"{base}/v1",
        "OPENAI_API_BASE": f"{base}/v1",
        "OPENAI_API_KEY": MODEL,
        "ANTHROPIC_BASE_URL": base,
        "ANTHROPIC_API_BASE": base,
        "ANTHROPIC_API_KEY": MODEL,
        "SANDLOT_MODEL": MODEL,
        "SANDLOT_PROMPT": prompt,
        "SANDLOT_TOOLS_URL": f"{base}/tools",
    }


async def _stop_when_over(conversation: CapturedConversation, process: Process) -> None:
    await conversation.over.wait()
    await process.kill()


@asynccontextmanager
async def _serve_endpoints(sandbox: Sandbox, conversation: CapturedConversation, more: Sequence[Route]) -> AsyncGenerator[None]:
    """Serve the endpoints inside for as long as the context lasts."""
    with tempfile.TemporaryDirectory(prefix="sandlot-") as folder:
        path = Path(folder) / "agent.sock"
        try:
            async with (
                serve_app(capture_app(conversation, more), unix=path, drain_s=0.1),
                sandbox.listen(_PORT) as connections,
                anyio.create_task_group() as relays,
            ):
                relays.start_soon(_accept, connections, path, relays)
                yield
                relays.cancel_scope.cancel()
        except BaseExceptionGroup as wrapped:
            raise unwrapped(wrapped) from None


async def _accept(connections: AsyncIterator[Stream], path: Path, relays: anyio.abc.TaskGroup) -> None:
    """Relay the agent's connections. Each takes two open files here, so their number is limited; others wait inside."""
    slots = anyio.Semaphore(_CONNECTIONS)
    async for inside in connections:
        await slots.acquire()
        with boundary(HarnessError, "accepting a connection of the agent"):
            server = await anyio.connect_unix(path)
        relays.start_soon(_relay, inside, server, slots)


async def _relay(inside: Stream, server: anyio.abc.SocketStream, slots: anyio.Semaphore) -> None:
    """Copy the bytes of one connection in both directions until one side ends."""
    try:
        async with server, anyio.create_task_group() as ways:

            async def outwards() -> None:
                while data := await inside.receive():
                    await server.send(data)
                await server.send_eof()

            ways.start_soon(outwards)
            async for data in server:
                await inside.send(data)
            ways.cancel_scope.cancel()
    except* (OSError, anyio.BrokenResourceError, anyio.ClosedResourceError):
        pass  # the agent closed the connection, or was killed
    finally:
        slots.release()
        with anyio.move_on_after(1, shield=True):
            await inside.aclose()


def _record_summary(trace: Trace, conversation: CapturedConversation) -> None:
    detail: Json = {"requests": {kind.value: number for kind, number in conversation.history.drifts.items()}}
    if conversation.num_abandoned:
        detail["abandoned"] = conversation.num_abandoned
    trace.events.append(Event(kind=CAPTURED, turn=trace.num_turns, detail=detail))


def _record_end(trace: Trace, conversation: CapturedConversation, said: _AgentOutput) -> End:
    """Record how the agent ended, and return why. Raises errors of our side, and if the agent never called the model."""
    if conversation.error is not None:
        raise conversation.error
    detail = {"code": said.code, "stdout": said.text("stdout"), "stderr": said.text("stderr")}
    killed = conversation.over.is_set()
    crashed = said.code != 0 and not killed
    trace.events.append(Event(kind="agent_crashed" if crashed else "agent_ended", turn=trace.num_turns, detail=detail))
    if conversation.end not in {None, End.REFUSED, End.BREACH}:
        trace.events.append(Event(kind="limit", turn=trace.num_turns, detail={"limit": str(conversation.end)}))
    if not conversation.history.drifts:
        why = said.text("stderr").strip()[-2000:] or said.text("stdout").strip()[-2000:] or "it wrote nothing"
        raise HarnessError(f"the agent ended with code {said.code} and never called the model: {why}", kind="agent")
    return conversation.end or End.DONE
