"""A link whose other end is a hostile or broken agent: whatever it sends, callers get a `SandboxError`, and nothing hangs."""

import socket
from contextlib import suppress

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from drive.leftovers import no_leftovers
from sandlot.core.errors import SandboxError, unwrapped
from sandlot.core.ports.sandbox import Command
from sandlot.sandbox.link import link as link_module
from sandlot.sandbox.link.link import Link
from sandlot.sandbox.link.process import spawn
from sandlot.sandbox.link.wire import FrameKind, pack_frame, pack_text


async def talk(answer: bytes, work):
    """Run `work(link)` against a peer that sends these bytes and then closes."""
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    link = Link(ours)
    try:
        with anyio.fail_after(5):
            async with anyio.create_task_group() as group:
                group.start_soon(link.run)
                try:
                    theirs.sendall(answer)
                    theirs.shutdown(socket.SHUT_WR)
                    return await work(link)
                finally:
                    theirs.close()
                    link.close()
    except BaseExceptionGroup as group_error:
        raise unwrapped(group_error) from None


async def ask(link):
    return await link.ask(FrameKind.READ, b"", most=1000)


async def wait(link):
    process = await spawn(link, Command(argv=("x",)))
    pieces = [data async for _, data in process.output()]
    return b"".join(pieces), await process.wait()


EXIT = b"\x03\0\0\0" + b"\0" * 9


async def test_an_honest_answer_comes_through():
    assert await talk(pack_frame(FrameKind.DATA, 1, b"abc") + pack_frame(FrameKind.DONE, 1, bytes(8)), ask) == ([b"abc"], 0)


async def test_an_honest_process_comes_through():
    assert await talk(pack_frame(FrameKind.OUTPUT, 1, b"\0out") + pack_frame(FrameKind.EXITED, 1, EXIT), wait) == (b"out", 3)


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"\xff" * 100,
        pack_frame(FrameKind.DATA, 1, b"x" * 1001),
        pack_frame(FrameKind.DONE, 1, b"short"),
        pack_frame(FrameKind.FAILED, 1, b"\1\0\0\0\xff\xff\xff\xff"),
        pack_frame(FrameKind.HELLO, 1),
        pack_frame(FrameKind.DONE, 2, bytes(8)),
        pack_frame(FrameKind.DATA, 1, b"never finished"),
    ],
)
async def test_a_dishonest_answer_is_a_sandbox_error(answer):
    with pytest.raises(SandboxError):
        await talk(answer, ask)


@pytest.mark.parametrize(
    "answer",
    [
        pack_frame(FrameKind.OUTPUT, 1, b""),
        pack_frame(FrameKind.OUTPUT, 1, b"\7stream seven"),
        pack_frame(FrameKind.EXITED, 1, b"?"),
        pack_frame(FrameKind.CLOSED, 1, bytes(8)),
        pack_frame(FrameKind.DATA, 1, b"data on a stream"),
        pack_frame(FrameKind.OUTPUT, 1, b"\0cut")[:-1],
        pack_frame(FrameKind.OUTPUT, 1, b"\0") + pack_frame(FrameKind.OUTPUT, 1, b"\0after the end"),
        pack_frame(FrameKind.OUTPUT, 1, b"\0") * 2,
    ],
)
async def test_a_dishonest_process_is_a_sandbox_error(answer):
    with pytest.raises(SandboxError):
        await talk(answer, wait)


async def test_output_beyond_every_window_breaks_the_link():
    piece = pack_frame(FrameKind.OUTPUT, 1, b"\0" + b"x" * 500_000)
    ours, theirs = socket.socketpair()
    link = Link(ours)
    process = await spawn(link, Command(argv=("x",)))
    with pytest.raises(SandboxError, match="window"):  # noqa: PT012 - which of them is one too many does not matter
        for _ in range(20):
            for item in link._reader.feed(piece):
                process._channel.on_frame(item)
    link.close()
    theirs.close()


async def test_a_refusal_leaves_nothing_for_the_garbage_collector():
    refusal = pack_frame(FrameKind.FAILED, 1, b"\2\0\0\0" + pack_text("read: no"))

    async def refused(link):
        with suppress(FileNotFoundError):
            await ask(link)

    with no_leftovers():
        await talk(refusal, refused)


async def test_a_refusal_becomes_the_error_of_its_number():
    with pytest.raises(FileNotFoundError):
        await talk(pack_frame(FrameKind.FAILED, 1, b"\2\0\0\0" + pack_text("read: no")), ask)


@given(
    st.lists(st.tuples(st.sampled_from(list(FrameKind)), st.integers(0, 2), st.binary(max_size=40)), max_size=6),
    st.binary(max_size=8),
)
def test_any_frames_at_all_end_in_a_value_an_os_error_or_a_sandbox_error(items, rest):
    data = b"".join(pack_frame(*item) for item in items) + rest

    async def main():
        for work in (ask, wait):
            with suppress(SandboxError, OSError):
                await talk(data, work)

    anyio.run(main)


async def test_an_agent_that_reads_nothing_breaks_the_link_for_everyone(monkeypatch):
    """Sending cannot be cancelled, so nothing else would end it."""
    monkeypatch.setattr(link_module, "_UNREAD_S", 0.05)
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    link = Link(ours)
    refused = []

    async def send():
        with pytest.raises(SandboxError, match="has read nothing") as caught:
            await link.send(FrameKind.INPUT, 1, bytes(900_000))
        refused.append(caught.value.kind)

    with anyio.fail_after(5):
        async with anyio.create_task_group() as group:
            for _ in range(3):
                group.start_soon(send)
    assert refused == ["died"] * 3
    theirs.close()
