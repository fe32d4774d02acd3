"""Connections to an MCP server that runs inside the sandbox: its standard streams, or a port it listens on.

Its output is treated like that of any other server (see `stdio.py`). It ends with its context, at the latest with the sandbox. If
the sandbox dies, that is the sandbox's failure and not the server's, so that error is kept and raised.
"""

import socket
import tempfile
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import anyio
from anyio.abc import ObjectReceiveStream, ObjectSendStream, SocketAttribute, SocketStream
from mcp.shared.message import SessionMessage

from sandlot.core.errors import SandboxError
from sandlot.core.ports.sandbox import Command, Process, Stream
from sandlot.core.ports.world import World
from sandlot.tools.stdio import CLOSE_S, TAIL_BYTES, LineSplitter, ServerNotes, exit_text, message_line, parse_message

AT_ONCE = 64
"""Connections to one server that are open at the same time."""


@asynccontextmanager
async def open_stdio_inside(
    world: World, command: Command, notes: ServerNotes
) -> AsyncGenerator[tuple[ObjectReceiveStream[SessionMessage | Exception], ObjectSendStream[SessionMessage]]]:
    """Start the server inside; its two message streams, for as long as its process lives."""
    process = await world.spawn(command)
    incoming_end, incoming = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    outgoing, outgoing_end = anyio.create_memory_object_stream[SessionMessage](0)
    async with incoming, outgoing, anyio.create_task_group() as group:
        group.start_soon(_read_output, process, incoming_end, notes)
        group.start_soon(_write_input, process, outgoing_end)
        try:
            yield incoming, outgoing
        finally:
            with anyio.CancelScope(shield=True):  # every wait in it is bounded
                await _stop(process)
            group.cancel_scope.cancel()


async def _read_output(process: Process, incoming: ObjectSendStream[SessionMessage | Exception], notes: ServerNotes) -> None:
    splitter = LineSplitter()
    async with incoming:
        with suppress(anyio.ClosedResourceError, anyio.BrokenResourceError):
            try:
                async for name, data in process.output():
                    if name == "stderr":
                        notes.stderr = (notes.stderr + data)[-TAIL_BYTES:]
                        continue
                    for line in splitter.feed(data):
                        if (message := parse_message(line, notes)) is not None:
                            await incoming.send(message)
                notes.trouble = notes.trouble or exit_text(await process.wait())
            except SandboxError as error:
                notes.lost = error


async def _write_input(process: Process, outgoing: ObjectReceiveStream[SessionMessage]) -> None:
    async with outgoing:
        with suppress(SandboxError):  # `_read_output` reports the end
            async for message in outgoing:
                await process.send(message_line(message))


async def _stop(process: Process) -> None:
    with suppress(SandboxError):
        with anyio.move_on_after(CLOSE_S):
            await process.send(b"")
            await process.wait()
        with anyio.move_on_after(CLOSE_S):
            await process.kill()


@asynccontextmanager
async def forward_port(world: World, port: int, notes: ServerNotes) -> AsyncGenerator[str]:
    """A unix socket on the host, for this user only, that forwards to a port inside, for clients that know no sandboxes."""
    slots = anyio.CapacityLimiter(AT_ONCE)
    open_now: set[SocketStream] = set()
    ended = anyio.Event()

    async def pass_through(client: SocketStream) -> None:
        open_now.add(client)
        try:
            await forward(client)
        finally:
            open_now.remove(client)
            ended.set()

    async def forward(client: SocketStream) -> None:
        async with client, slots:
            try:
                stream = await world.connect(port)
            except OSError:
                return  # no program listens: the client sees a closed connection
            except SandboxError as error:
                notes.lost = error
                return
            try:
                await _join(client, stream)
            finally:
                await stream.aclose()

    with tempfile.TemporaryDirectory(prefix="sandlot-") as folder:
        path = str(Path(folder) / "port")
        async with await anyio.create_unix_listener(path) as listener, anyio.create_task_group() as group:
            group.start_soon(listener.serve, pass_through)
            try:
                yield path
            finally:
                # A socket that is closed while a task that reads it is cancelled is an error in the event loop's log.
                with anyio.move_on_after(CLOSE_S, shield=True):
                    while open_now:
                        ended = anyio.Event()
                        await ended.wait()
                group.cancel_scope.cancel()


async def _join(client: SocketStream, stream: Stream) -> None:
    """Copy bytes in both directions until one side ends; then the other is closed too, so that no task must be cancelled."""
    broken = (anyio.BrokenResourceError, anyio.ClosedResourceError, SandboxError, OSError)

    async def outwards() -> None:
        with suppress(*broken):
            while data := await stream.receive():
                await client.send(data)
        with suppress(OSError):
            client.extra(SocketAttribute.raw_socket).shutdown(socket.SHUT_RDWR)  # noqa: S610 - anyio, not Django

    async with anyio.create_task_group() as group:
        group.start_soon(outwards)
        with suppress(*broken):
            async for data in client:
                await stream.send(data)
        await stream.aclose()
