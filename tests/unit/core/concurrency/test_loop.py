import asyncio
import selectors
import socket
import threading
from collections.abc import Generator
from contextlib import ExitStack

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandlot.core.concurrency.blocking import run_interruptible
from sandlot.core.concurrency.loop import AT_ONCE, LOOP_OPTIONS, FewAtOnce

Pair = tuple[socket.socket, socket.socket]


class Pairs:
    """Connected sockets; one end of each is registered."""

    def __init__(self, num_pairs: int, selector: selectors.BaseSelector) -> None:
        self.pairs = [socket.socketpair() for _ in range(num_pairs)]
        for number, (here, _) in enumerate(self.pairs):
            selector.register(here, selectors.EVENT_READ, number)

    def send(self, number: int) -> None:
        self.pairs[number][1].send(b"x")

    def close(self) -> None:
        for here, there in self.pairs:
            here.close()
            there.close()


@pytest.fixture
def selector() -> Generator[FewAtOnce]:
    with FewAtOnce() as opened:
        yield opened


def test_few_come_at_once_and_all_come_once_in_their_order(selector: FewAtOnce):
    pairs = Pairs(3 * AT_ONCE, selector)
    for number in reversed(range(3 * AT_ONCE)):
        pairs.send(number)
    seen: list[int] = []
    for _ in range(3):
        ready = selector.select(0)
        assert len(ready) == AT_ONCE
        for key, _ in ready:
            pairs.pairs[key.data][0].recv(1)
            seen.append(key.data)
    assert seen == list(reversed(range(3 * AT_ONCE)))
    assert selector.select(0) == []
    pairs.close()


def test_one_that_is_always_ready_does_not_keep_the_others_waiting(selector: FewAtOnce):
    pairs = Pairs(2 * AT_ONCE, selector)
    for number in range(2 * AT_ONCE):
        pairs.send(number)  # nobody reads: they stay ready
    seen = [key.data for _ in range(4) for key, _ in selector.select(0)]
    assert seen == 2 * list(range(2 * AT_ONCE))
    pairs.close()


@given(sent=st.lists(st.integers(0, 99), unique=True), gone=st.sets(st.integers(0, 99)))
def test_what_is_unregistered_meanwhile_does_not_come(sent: list[int], gone: set[int]):
    with ExitStack() as stack:
        selector = stack.enter_context(FewAtOnce())
        pairs = Pairs(100, selector)
        stack.callback(pairs.close)
        for number in sent:
            pairs.send(number)
        seen = [key.data for key, _ in selector.select(0)]
        for number in gone:
            selector.unregister(pairs.pairs[number][0])
        for number in gone:  # other files with the same numbers, which are not ready
            for each in pairs.pairs[number]:
                each.close()
            pairs.pairs[number] = socket.socketpair()
            selector.register(pairs.pairs[number][0], selectors.EVENT_READ, 1000)
        for _ in range(100 // AT_ONCE + 1):
            seen += [key.data for key, _ in selector.select(0) if key.data not in seen]
    assert set(seen) >= set(sent) - gone
    assert 1000 not in seen


def test_timers_are_served_between_many_files_that_are_ready():
    """As in a run: each reply makes some work, and a timer is due all the time."""
    order: list[str] = []

    async def run() -> None:
        loop = asyncio.get_running_loop()
        pairs = [socket.socketpair() for _ in range(4 * AT_ONCE)]

        done = asyncio.Event()

        def reply(here: socket.socket) -> None:
            here.recv(1)
            order.append("reply")
            if order.count("reply") == len(pairs):
                done.set()

        def tick() -> None:
            order.append("tick")
            loop.call_soon(tick)

        for here, there in pairs:
            loop.add_reader(here, reply, here)
            there.send(b"x")
        tick()
        await done.wait()
        for here, there in pairs:
            loop.remove_reader(here)
            here.close()
            there.close()

    anyio.run(run, backend_options=LOOP_OPTIONS)
    between = "".join("t" if each == "tick" else "r" for each in order).split("t")
    assert max(map(len, between)) <= AT_ONCE


def test_a_run_uses_it_in_every_thread():
    async def selector_of() -> type:
        return type(asyncio.get_running_loop()._selector)  # type: ignore[attr-defined] - there is no public name for it

    found = [run_interruptible(selector_of)]
    thread = threading.Thread(target=lambda: found.append(run_interruptible(selector_of)))
    thread.start()
    thread.join()
    assert found == [FewAtOnce, FewAtOnce]
