"""The environment's tools for an agent that has only a shell: a command in the sandbox calls them on the host.

The harness serves two more routes beside the model's endpoints, and puts the command `tool` into the sandbox. A call goes through
the session, so limits, rules and events are those of any tool call. What the agent sends is hostile: bodies, the number of calls
in a turn and the size of all arguments are limited. Calls run one after the other, and never stop half-way because a client went
away: only a limit ends one. A call is an event of the trace (`tool_called`), not a message: the model's tokens stay its own.
"""

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import anyio
import msgspec
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from sandlot.core.errors import HarnessError, SandboxError, SandlotError, ToolError, boundary, unwrapped
from sandlot.core.ports.sandbox import Command, Sandbox
from sandlot.core.ports.session import Workplace
from sandlot.core.ports.world import ToolSpec
from sandlot.core.trace import Event, ToolCall, ToolResult, Trace
from sandlot.core.types import Json
from sandlot.harness.captured.inside import tool
from sandlot.harness.captured.server import CapturedConversation
from sandlot.model.wire.arguments import is_storable
from sandlot.model.wire.http import decode_body, json_response, read_body
from sandlot.sandbox.command import run_command

FOLDER = "/dev/shm/sandlot"  # noqa: S108 - inside the sandbox, where it is no part of the evidence
"""Where the command is, inside the sandbox."""
MAX_ARGUMENT_BYTES = 16 * 2**20
"""Size limit of the arguments of all calls of a rollout: they are kept in the trace."""
_MAX_BODY_BYTES = tool.MAX_BYTES
_MAX_WAITING = 4
"""Calls that may wait for each other: a body of 1 MiB can be 25 MB once it is read, and a client that goes away frees nothing."""
_COMMAND = anyio.Path(tool.__file__)
PROMPT = """

The tools of this task are reached with the shell command `tool`:
  tool --list                  lists them
  tool NAME --help             describes one, with the JSON schema of its arguments
  tool NAME '{"argument": 1}'  calls one and prints its result (`-` instead of the JSON reads it from standard input)
"""


class _AskedCall(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The body of a call."""

    name: str
    arguments: Json = {}


@dataclass(slots=True)
class _WaitingCall:
    """A call that a client waits for."""

    call: ToolCall
    num_bytes: int
    result: ToolResult | None = None
    """None: it was not made, since the rollout is over."""
    done: anyio.Event = field(default_factory=anyio.Event)


class ServedTools:
    """The tools of one rollout, for a command in its sandbox."""

    def __init__(
        self,
        session: Workplace,
        conversation: CapturedConversation,
        trace: Trace,
        send: MemoryObjectSendStream[_WaitingCall],
    ) -> None:
        self.specs: Sequence[ToolSpec] = session.outside_tools
        self.closed = False
        """Set when the agent has ended: calls that wait are not made."""
        self._session = session
        self._conversation = conversation
        self._trace = trace
        self._send = send
        self._num_calls = 0
        self._num_refused = 0
        self._num_waiting = 0
        self._bytes_left = MAX_ARGUMENT_BYTES

    @property
    def prompt(self) -> str:
        """What the agent is told about them; empty if there are none."""
        return PROMPT if self.specs else ""

    def routes(self) -> list[Route]:
        """The routes of the server; none without tools."""
        if not self.specs:
            return []
        return [Route("/tools", self._list), Route("/tools/call", self._call, methods=["POST"])]

    async def answer_calls(self, waiting_calls: MemoryObjectReceiveStream[_WaitingCall]) -> None:
        """Run the calls one after the other until the stream ends."""
        async for waiting in waiting_calls:
            try:
                async with self._conversation.acting:
                    if not (self.closed or self._conversation.over.is_set()):
                        waiting.result = await self._answer(waiting)
            except SandlotError as error:
                self._conversation.fail(error)
            finally:
                waiting.done.set()
        if self._num_refused:
            self._record("tool_calls_refused", calls=self._num_refused)

    async def _answer(self, waiting: _WaitingCall) -> ToolResult:
        call = waiting.call
        if waiting.num_bytes > self._bytes_left:
            self._num_refused += 1
            text = f"Not run: this rollout's {MAX_ARGUMENT_BYTES} bytes of arguments are used up."
            return ToolResult(call=call.id, text=text, error=True)
        try:
            with boundary(HarnessError, "a tool call of the agent"):
                step = await self._session.call(call)
        except anyio.get_cancelled_exc_class():
            # The time limit ended it half-way; what it did by then, it did.
            self._record("tool_called", call=call.id, tool=call.name, arguments=call.arguments, text="cut off", error=True)
            raise
        except ToolError as error:
            self._num_refused += 1
            return ToolResult(call=call.id, text=str(error), error=True)
        result = next(part for message in step.messages for part in message.parts if isinstance(part, ToolResult))
        self._trace.events.extend(step.events)
        self._bytes_left -= waiting.num_bytes
        detail = {"call": call.id, "tool": call.name, "arguments": call.arguments, "text": result.text, "error": result.error}
        self._record("tool_called", **detail)
        if step.end is not None:
            self._conversation.finish(step.end)
        return result

    def _record(self, kind: str, **detail: object) -> None:
        self._trace.events.append(Event(kind=kind, turn=self._trace.num_turns, detail=detail))

    async def _list(self, _request: Request) -> Response:
        return json_response({"tools": self.specs})

    async def _call(self, request: Request) -> Response:
        if self._num_waiting >= _MAX_WAITING:
            raise HTTPException(429, f"{_MAX_WAITING} calls are waiting already; make the next one when one of them has returned")
        self._num_waiting += 1
        try:
            return await self._call_in_turn(request)
        finally:
            self._num_waiting -= 1

    async def _call_in_turn(self, request: Request) -> Response:
        body = await read_body(request, _MAX_BODY_BYTES)
        asked = decode_body(body, _AskedCall)
        if not is_storable(asked.arguments):
            raise HTTPException(400, "the arguments have values that JSON records cannot hold, such as very large integers")
        self._num_calls += 1
        waiting = _WaitingCall(ToolCall(f"tool{self._num_calls}", asked.name, asked.arguments), len(body))
        try:
            await self._send.send(waiting)
            await waiting.done.wait()
        except (anyio.BrokenResourceError, anyio.ClosedResourceError):
            pass  # the rollout ended meanwhile
        if waiting.result is None:
            raise HarnessError("the rollout is over; this call is too late", kind="over")
        shown = waiting.result.text
        if waiting.result.images:
            shown += f"\n[{len(waiting.result.images)} images, which a command cannot show]"
        return json_response({"text": shown, "error": waiting.result.error})


@asynccontextmanager
async def open_tools(session: Workplace, conversation: CapturedConversation, trace: Trace) -> AsyncGenerator[ServedTools]:
    """The tools, ready for calls. At the end a running call finishes."""
    send, waiting_calls = anyio.create_memory_object_stream[_WaitingCall](0)
    tools = ServedTools(session, conversation, trace, send)
    try:
        async with waiting_calls, anyio.create_task_group() as group, send:
            if tools.specs:
                await _put_command(session.machine())
            group.start_soon(tools.answer_calls, waiting_calls)
            yield tools
            tools.closed = True
    except BaseExceptionGroup as wrapped:
        raise unwrapped(wrapped) from None


async def _put_command(sandbox: Sandbox) -> None:
    """Put the command into the sandbox, outside what evidence reads."""
    script = f"mkdir -p {FOLDER} && cat > {FOLDER}/tool && chmod 755 {FOLDER} {FOLDER}/tool"
    done = await run_command(sandbox, Command(argv=("/bin/sh", "-c", script), stdin=await _COMMAND.read_bytes()))
    if done.code != 0:
        raise SandboxError(f"putting the command `tool` into the sandbox failed with code {done.code}: {done.stderr[-500:]}")
