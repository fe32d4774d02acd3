"""Messages over a connection that is slow, or that nobody reads."""

import asyncio
import socket
from contextlib import asynccontextmanager

import anyio
import anyio.lowlevel
import msgspec
import pytest

from sandlot.run.executors import connection as connections
from sandlot.run.executors.connection import open_connection
from sandlot.run.executors.messages import FromWorker, RolloutRaised, WorkerGone

pytestmark = pytest.mark.timeout(300)
LARGE = RolloutRaised(number=1, error="x" * 3_000_000)


@asynccontextmanager
async def two_ends():
    """A connection, and the stream at its other end, with small buffers on the way."""
    ours, theirs = socket.socketpair()
    for end in (ours, theirs):
        end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
        end.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    stream = await anyio.abc.UNIXSocketStream.from_socket(ours)
    async with await anyio.abc.UNIXSocketStream.from_socket(theirs) as other, open_connection(stream, beats=True) as connection:
        yield connection, other


async def test_who_leaves_waits_for_a_slow_reader_as_long_as_bytes_move(monkeypatch):
    heard, began_s, now_s = [], anyio.current_time(), anyio.current_time()
    monkeypatch.setattr(asyncio.get_running_loop(), "time", lambda: now_s)  # however busy the machine is

    async def read_slowly(stream) -> None:
        nonlocal now_s
        async with stream:
            while sum(map(len, heard)) < len(LARGE.error):
                heard.append(await stream.receive(30_000))
                for _ in range(3):  # the writer writes as much again
                    await anyio.lowlevel.checkpoint()
                now_s += 0.3 * len(heard[-1]) / connections._CHUNK_BYTES  # less for each chunk than nothing may be taken

    async with anyio.create_task_group() as group, two_ends() as (connection, other):
        group.start_soon(read_slowly, other)
        connection.say(LARGE)
        await connection.wait_closed(0.5)
    assert sum(map(len, heard)) >= len(LARGE.error)
    assert now_s - began_s > 2.0, "it waited for much longer than nothing may be taken"


async def test_what_nobody_reads_does_not_count_as_written_and_is_not_waited_for(monkeypatch):
    monkeypatch.setattr(connections, "BEAT_S", 0.02)
    written = []
    async with two_ends() as (connection, other):
        connection.say(WorkerGone(), written=lambda: written.append("small"))
        connection.say(LARGE, written=lambda: written.append("large"))
        with anyio.fail_after(30):
            await connection.wait_closed(0.5)
        assert written == ["small"]
        async with open_connection(other, beats=False) as reader:
            messages = reader.messages(msgspec.msgpack.Decoder(FromWorker))
            assert [await anext(messages), await anext(messages)] == [WorkerGone(), LARGE]
            await anyio.wait_all_tasks_blocked()
        assert written == ["small", "large"]


async def test_a_connection_may_end_just_before_a_beat(monkeypatch):
    monkeypatch.setattr(connections, "BEAT_S", 0.0)
    outbox, outgoing = anyio.create_memory_object_stream(1)
    with outbox, outgoing, anyio.fail_after(10):
        outbox.close()
        await connections._beat(outbox, anyio.CancelScope())


@pytest.mark.parametrize("num_come", [2, 4, 9])
async def test_a_message_that_comes_while_its_reader_is_cancelled_is_read_by_the_next(num_come):
    said = RolloutRaised(number=1, error="it broke")
    data = msgspec.msgpack.encode(said)
    frame, decoder = len(data).to_bytes(4, "big") + data, msgspec.msgpack.Decoder(FromWorker)
    async with two_ends() as (connection, other):
        await other.send(frame[:num_come])
        async with anyio.create_task_group() as group:
            group.start_soon(anext, connection.messages(decoder))
            await anyio.wait_all_tasks_blocked()
            group.cancel_scope.cancel()
        await other.send(frame[num_come:])
        with anyio.fail_after(30):
            assert await anext(connection.messages(decoder)) == said
