"""Messages over a connection that is slow, or that nobody reads."""

import asyncio
import socket
from contextlib import AsyncExitStack, aclosing, asynccontextmanager, suppress

import anyio
import anyio.lowlevel
import msgspec
import pytest

from sandlot.run.executors import connection as connections
from sandlot.run.executors.connection import open_connection
from sandlot.run.executors.messages import FromWorker, RolloutRaised, WorkerGone
from sandlot.run.executors.receiving import ReceiveBudget

pytestmark = pytest.mark.timeout(300)
LARGE = RolloutRaised(number=1, error="x" * 3_000_000)
MEDIUM = RolloutRaised(number=1, error="x" * 400_000)


@asynccontextmanager
async def two_ends(budget=None):
    """A connection, and the stream at its other end, with small buffers on the way."""
    ours, theirs = socket.socketpair()
    for end in (ours, theirs):
        end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
        end.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    stream = await anyio.abc.UNIXSocketStream.from_socket(ours)
    async with (
        await anyio.abc.UNIXSocketStream.from_socket(theirs) as other,
        open_connection(stream, beats=True, budget=budget) as connection,
    ):
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


def framed(message) -> bytes:
    data = msgspec.msgpack.encode(message)
    return len(data).to_bytes(4, "big") + data


async def settled() -> None:
    for _ in range(200):
        await anyio.lowlevel.checkpoint()


async def test_large_messages_of_many_connections_do_not_come_in_together():
    """Four workers announce messages that are as large as the run takes, and send most of them."""
    budget, decoder = ReceiveBudget(500_000), msgspec.msgpack.Decoder(FromWorker)
    async with AsyncExitStack() as stack:
        ends = [await stack.enter_async_context(two_ends(budget)) for _ in range(4)]

        async def read(connection) -> None:
            async for _ in connection.messages(decoder):
                raise AssertionError("none was sent whole")

        async def send(other) -> None:
            with suppress(anyio.ClosedResourceError, anyio.BrokenResourceError):  # closed below, while it waits
                await other.send(framed(MEDIUM)[:-1])

        async with anyio.create_task_group() as group:
            for connection, other in ends:
                group.start_soon(read, connection)
                group.start_soon(send, other)
            with anyio.fail_after(20):
                while max(len(connection._frame) for connection, _ in ends) < 400_000:
                    await anyio.lowlevel.checkpoint()
            await settled()
            assert sum(len(connection._frame) for connection, _ in ends) < 500_000
            for _, other in ends:
                await other.aclose()


async def test_small_messages_pass_while_a_large_one_holds_all_there_is():
    budget, decoder = ReceiveBudget(400_100), msgspec.msgpack.Decoder(FromWorker)
    async with two_ends(budget) as (large, sender), two_ends(budget) as (small, other), anyio.create_task_group() as group:
        group.start_soon(anext, large.messages(decoder), None)
        await sender.send(framed(MEDIUM)[:1000])
        await settled()
        await other.send(framed(WorkerGone()))
        with anyio.fail_after(20):
            assert await anext(small.messages(decoder)) == WorkerGone()
        await sender.aclose()


async def test_a_large_message_that_keeps_others_waiting_for_long_ends_its_connection_and_no_other():
    now_s = 0.0
    budget, decoder = ReceiveBudget(400_100, now=lambda: now_s), msgspec.msgpack.Decoder(FromWorker)
    heard = []
    async with two_ends(budget) as (slow, sender), two_ends(budget) as (next_one, other), anyio.create_task_group() as group:

        async def read() -> None:
            heard.append(await anext(next_one.messages(decoder), None))

        async def read_slow() -> None:
            async with aclosing(slow.messages(decoder)) as messages:
                async for _ in messages:
                    raise AssertionError("it was not sent whole")

        group.start_soon(read_slow)
        await sender.send(framed(MEDIUM)[:1000])
        await settled()
        now_s = 1000.0
        await sender.send(b"x")
        await settled()
        assert slow.ended == "closed its connection", "nobody waits yet"
        group.start_soon(read)
        group.start_soon(other.send, framed(MEDIUM))
        await settled()
        await sender.send(b"x")
        with anyio.fail_after(20):
            while not heard:
                await anyio.lowlevel.checkpoint()
    assert heard == [MEDIUM]
    assert slow.ended == "sent a large message too slowly, while others waited"


async def test_what_a_connection_held_is_free_when_it_ends_and_after_each_message():
    budget, decoder = ReceiveBudget(400_100), msgspec.msgpack.Decoder(FromWorker)
    for _ in range(3):
        async with two_ends(budget) as (connection, other), anyio.create_task_group() as group:

            async def send(stream=other) -> None:
                await stream.send(framed(MEDIUM) + framed(MEDIUM) + framed(MEDIUM)[:100_000])
                await stream.aclose()

            group.start_soon(send)
            with anyio.fail_after(20):
                assert [each async for each in connection.messages(decoder)] == [MEDIUM, MEDIUM]
    assert budget._free == 400_100
