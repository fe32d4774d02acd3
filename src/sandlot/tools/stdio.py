"""An MCP server as a child process: JSON-RPC lines over its standard streams, none of which can hurt the host.

The SDK brings a transport of this kind; this one adds what a hostile or broken server makes necessary: a cap on the size of one
line, so that a server cannot fill the host's memory; an answer to a request whose line cannot be used, so that nobody waits for
it; and what the server said before it died, for the error message. Its process group is gone when the context ends.
"""

import os
import re
import signal
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field

import anyio
from anyio.abc import ObjectReceiveStream, ObjectSendStream, Process
from mcp.shared.message import SessionMessage
from mcp_types import INTERNAL_ERROR, PARSE_ERROR, ErrorData, JSONRPCError, jsonrpc_message_adapter

from sandlot.core.errors import SandboxError
from sandlot.core.redaction import Secrets

MAX_MESSAGE_BYTES = 8 * 2**20
"""One message of a server."""
TOO_LARGE = f"the answer is larger than {MAX_MESSAGE_BYTES} bytes; ask for less at once"
"""Told to the agent in place of an answer that was thrown away."""
CLOSE_S = 2.0
"""How long a server may take to leave by itself once its input is closed, and again to be gone once killed."""
TAIL_BYTES = 2000

_ENDS_BYTES = 256
_ID_FIRST = re.compile(rb'\{\s*(?:"jsonrpc"\s*:\s*"2\.0"\s*,\s*)?"id"\s*:\s*(\d{1,15})\s*,')
_ID_LAST = re.compile(rb'"id"\s*:\s*(\d{1,15})\s*(?:,\s*"jsonrpc"\s*:\s*"2\.0"\s*)?\}\s*\Z')


@dataclass(slots=True)
class ServerNotes:
    """What is known about a server when something goes wrong. Grows while the server lives."""

    secrets: tuple[str, ...] = ()
    """Never shown."""
    stderr: bytes = b""
    noise: list[str] = field(default_factory=list[str])
    trouble: str = ""
    """Set when the server, and not a tool, failed: what happened."""
    lost: SandboxError | None = None
    """Set when the sandbox it ran in is gone: not the server's failure."""
    over_http: bool = False
    too_large: bool = False
    """An answer over HTTP was thrown away; whoever tells the agent sets it back."""

    def summary(self) -> str:
        """All of it, for the end of a message."""
        parts = [self.trouble] if self.trouble else []
        if self.noise:
            parts.append(f"{len(self.noise)} lines of its output were not JSON-RPC, the first: {self.noise[0]!r}")
        if tail := self.stderr.decode(errors="replace").strip():
            parts.append(f"it wrote: {tail}")
        return Secrets(self.secrets, min_chars=1).redact("; ".join(parts))


@dataclass(frozen=True, slots=True)
class OutputLine:
    """One line of output. If it was over the cap, only its two ends were kept."""

    head: bytes
    tail: bytes
    size: int

    @property
    def whole(self) -> bytes | None:
        """The line, unless it was too long."""
        return self.head if self.size == len(self.head) else None

    @property
    def request(self) -> int | None:
        """The request it answers, as far as its ends tell: servers write the id first or last."""
        found = _ID_FIRST.match(self.head[:_ENDS_BYTES]) or _ID_LAST.search(self.tail)
        return int(found[1]) if found else None


class LineSplitter:
    """Bytes in, lines out, never holding more than one capped line."""

    def __init__(self, max_bytes: int = MAX_MESSAGE_BYTES) -> None:
        self._max_bytes = max_bytes
        self._held = bytearray()
        self._tail = b""
        self._size = 0

    def feed(self, data: bytes) -> list[OutputLine]:
        """The lines that these bytes complete."""
        *ended, rest = data.split(b"\n")
        lines: list[OutputLine] = []
        for piece in ended:
            self._add(piece)
            lines.append(self._line())
        self._add(rest)
        return lines

    def _add(self, piece: bytes) -> None:
        self._size += len(piece)
        self._tail = (self._tail + piece)[-_ENDS_BYTES:]
        if self._size <= self._max_bytes:
            self._held += piece
        elif len(self._held) != _ENDS_BYTES:
            self._held = (self._held + piece)[:_ENDS_BYTES]

    def _line(self) -> OutputLine:
        line = OutputLine(bytes(self._held), self._tail, self._size)
        self._held, self._tail, self._size = bytearray(), b"", 0
        return line


@asynccontextmanager
async def open_stdio(
    command: Sequence[str], env: Mapping[str, str], cwd: str | None, notes: ServerNotes
) -> AsyncGenerator[tuple[ObjectReceiveStream[SessionMessage | Exception], ObjectSendStream[SessionMessage]]]:
    """The server's two streams, for as long as its process lives."""
    process = await anyio.open_process(list(command), env=env, cwd=cwd, start_new_session=True)
    incoming_end, incoming = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    outgoing, outgoing_end = anyio.create_memory_object_stream[SessionMessage](0)
    async with incoming, outgoing, anyio.create_task_group() as group:
        group.start_soon(_read_output, process, incoming_end, notes)
        group.start_soon(_write_input, process, outgoing_end)
        group.start_soon(_read_errors, process, notes)
        try:
            yield incoming, outgoing
        finally:
            with anyio.CancelScope(shield=True):  # every wait in it is bounded
                await _stop(process)
            group.cancel_scope.cancel()


async def _read_output(process: Process, incoming: ObjectSendStream[SessionMessage | Exception], notes: ServerNotes) -> None:
    assert process.stdout
    splitter = LineSplitter()
    async with incoming:
        with suppress(anyio.ClosedResourceError, anyio.BrokenResourceError):
            async for data in process.stdout:
                for line in splitter.feed(data):
                    message = parse_message(line, notes)
                    if message is not None:
                        await incoming.send(message)
        if not notes.trouble:
            notes.trouble = await _wait_exit(process)


def parse_message(line: OutputLine, notes: ServerNotes) -> SessionMessage | None:
    """The message in a line; for an answer that cannot be used, an error in its place; None for noise."""
    if line.whole is None:
        error = ErrorData(code=INTERNAL_ERROR, message=TOO_LARGE)
    else:
        if not line.whole.strip():
            return None
        try:
            return SessionMessage(jsonrpc_message_adapter.validate_json(line.whole, by_name=False))
        except ValueError as problem:
            error = ErrorData(code=PARSE_ERROR, message=f"the answer is not JSON-RPC: {str(problem)[:200]}")
    if line.request is not None:
        return SessionMessage(JSONRPCError(jsonrpc="2.0", id=line.request, error=error))
    if len(notes.noise) < 1000:
        notes.noise.append(line.head[:100].decode(errors="replace"))
    return None


def message_line(message: SessionMessage) -> bytes:
    """A message as a server reads it."""
    return message.message.model_dump_json(by_alias=True, exclude_unset=True).encode() + b"\n"


async def _write_input(process: Process, outgoing: ObjectReceiveStream[SessionMessage]) -> None:
    assert process.stdin
    async with outgoing:
        with suppress(anyio.ClosedResourceError, anyio.BrokenResourceError, OSError):  # the reader sees the end and tells
            async for message in outgoing:
                await process.stdin.send(message_line(message))


async def _read_errors(process: Process, notes: ServerNotes) -> None:
    assert process.stderr
    with suppress(anyio.ClosedResourceError, anyio.BrokenResourceError):
        async for data in process.stderr:
            notes.stderr = (notes.stderr + data)[-TAIL_BYTES:]


async def _wait_exit(process: Process) -> str:
    """How the process ended, now that its output is closed."""
    with anyio.move_on_after(CLOSE_S, shield=True):
        return exit_text(await process.wait())
    return "it closed its output"


def exit_text(code: int) -> str:
    """How a process with this exit code ended."""
    return f"its process ended with exit code {code}" if code >= 0 else f"its process was killed by {_signal_name(-code)}"


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:  # real-time signals have no names
        return f"signal {number}"


async def _stop(process: Process) -> None:
    assert process.stdin
    with suppress(anyio.ClosedResourceError, anyio.BrokenResourceError, OSError):
        await process.stdin.aclose()
    with anyio.move_on_after(CLOSE_S):
        await process.wait()
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)  # what it started goes too
    with anyio.move_on_after(CLOSE_S):
        await process.aclose()
