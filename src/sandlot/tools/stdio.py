"""An MCP server as a child process: JSON-RPC lines over its standard streams, safe against hostile servers.

The SDK has such a transport; this one adds a size limit for one line, so that a server cannot fill the host's memory; an error
response in place of a line that cannot be used, so that its request does not wait forever; and the last output of a server that
died, for the error message. Its process group is killed when the context ends.
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
"""Size limit of one message of a server."""
TOO_LARGE = f"the response is larger than {MAX_MESSAGE_BYTES} bytes; request less in one call"
"""What the agent gets in place of a response that was dropped."""
CLOSE_S = 2.0
"""How long a server may take to exit after its input is closed, and again after it is killed."""
TAIL_BYTES = 2000

_ENDS_BYTES = 256
_ID_FIRST = re.compile(rb'\{\s*(?:"jsonrpc"\s*:\s*"2\.0"\s*,\s*)?"id"\s*:\s*(\d{1,15})\s*,')
_ID_LAST = re.compile(rb'"id"\s*:\s*(\d{1,15})\s*(?:,\s*"jsonrpc"\s*:\s*"2\.0"\s*)?\}\s*\Z')


@dataclass(slots=True)
class ServerNotes:
    """What is known about a server, for error messages. Grows while the server lives."""

    secrets: tuple[str, ...] = ()
    """Removed from every message."""
    inside: bool = False
    """It runs inside the sandbox."""
    stderr: bytes = b""
    noise: list[str] = field(default_factory=list[str])
    trouble: str = ""
    """How the server, and not a tool, failed; empty if it did not."""
    lost: SandboxError | None = None
    """Set when its sandbox died: not the server's failure."""
    over_http: bool = False
    too_large: bool = False
    """A response over HTTP was dropped; set back when the agent has got the error."""

    def summary(self) -> str:
        """All notes as text, for the end of a message."""
        parts = [self.trouble] if self.trouble else []
        if self.noise:
            parts.append(f"{len(self.noise)} lines of its output were not JSON-RPC, the first: {self.noise[0]!r}")
        if tail := self.stderr.decode(errors="replace").strip():
            parts.append(f"it wrote: {tail}")
        return Secrets(self.secrets, min_chars=1).redact("; ".join(parts))


@dataclass(frozen=True, slots=True)
class OutputLine:
    """One line of output. Of a line above the size limit, only the two ends are kept."""

    head: bytes
    tail: bytes
    size: int

    @property
    def whole(self) -> bytes | None:
        """The line; None if it was too long."""
        return self.head if self.size == len(self.head) else None

    @property
    def request(self) -> int | None:
        """The id of the request it responds to, if it is in one of the ends: servers write the id first or last."""
        found = _ID_FIRST.match(self.head[:_ENDS_BYTES]) or _ID_LAST.search(self.tail)
        return int(found[1]) if found else None


class LineSplitter:
    """Splits bytes into lines, and never holds more than one line of limited size."""

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
    """Start the server; its two message streams, for as long as its process lives."""
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
    """The message in a line; an error message for a response that cannot be used; None for other output."""
    if line.whole is None:
        error = ErrorData(code=INTERNAL_ERROR, message=TOO_LARGE)
    else:
        if not line.whole.strip():
            return None
        try:
            return SessionMessage(jsonrpc_message_adapter.validate_json(line.whole, by_name=False))
        except ValueError as problem:
            error = ErrorData(code=PARSE_ERROR, message=f"the response is not JSON-RPC: {str(problem)[:200]}")
    if line.request is not None:
        return SessionMessage(JSONRPCError(jsonrpc="2.0", id=line.request, error=error))
    if len(notes.noise) < 1000:
        notes.noise.append(line.head[:100].decode(errors="replace"))
    return None


def message_line(message: SessionMessage) -> bytes:
    """A message as a line for the server."""
    return message.message.model_dump_json(by_alias=True, exclude_unset=True).encode() + b"\n"


async def _write_input(process: Process, outgoing: ObjectReceiveStream[SessionMessage]) -> None:
    assert process.stdin
    async with outgoing:
        with suppress(anyio.ClosedResourceError, anyio.BrokenResourceError, OSError):  # `_read_output` reports the end
            async for message in outgoing:
                await process.stdin.send(message_line(message))


async def _read_errors(process: Process, notes: ServerNotes) -> None:
    assert process.stderr
    with suppress(anyio.ClosedResourceError, anyio.BrokenResourceError):
        async for data in process.stderr:
            notes.stderr = (notes.stderr + data)[-TAIL_BYTES:]


async def _wait_exit(process: Process) -> str:
    """Wait for a process whose output is closed; how it ended."""
    with anyio.move_on_after(CLOSE_S, shield=True):
        return exit_text(await process.wait())
    return "it closed its output"


def exit_text(code: int) -> str:
    """How a process ended, from its exit code."""
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
        os.killpg(process.pid, signal.SIGKILL)  # with every process it started
    with anyio.move_on_after(CLOSE_S):
        await process.aclose()
