"""Worker threads: answers come back to whoever asked, threads that hang are counted and replaced."""

import contextvars
import threading
import weakref

import anyio
import anyio.to_thread
import pytest

from sandlot.core.concurrency import threads
from sandlot.core.concurrency.threads import ABANDONED, MAX_THREADS, off_loop


@pytest.fixture(autouse=True)
def _clean():
    ABANDONED.clear()
    yield
    ABANDONED.clear()


async def test_many_at_once_each_get_their_own_answer():
    got = {}

    async def ask(number):
        got[number] = await off_loop("test", lambda: number)

    async with anyio.create_task_group() as group:
        for number in range(500):
            group.start_soon(ask, number)
    assert got == {number: number for number in range(500)}


async def test_it_runs_in_another_thread_with_the_callers_context():
    seen = contextvars.ContextVar("seen")
    seen.set("mine")
    assert await off_loop("test", lambda: (seen.get(), threading.current_thread() is threading.main_thread())) == ("mine", False)


async def test_hanging_threads_are_counted_replaced_and_uncounted_when_they_return(monkeypatch):
    monkeypatch.setattr(threads, "_IDLE_S", 0.0)
    release = threading.Event()
    hung = []

    def hang():
        hung.append(threading.current_thread())
        release.wait()

    async def give_up():
        with anyio.move_on_after(0.01):
            await off_loop("test.hang", hang)

    async with anyio.create_task_group() as group:
        for _ in range(MAX_THREADS + 8):
            group.start_soon(give_up)
    assert MAX_THREADS <= ABANDONED["test.hang"] <= MAX_THREADS + 8  # what no thread had begun is dropped, not counted
    with anyio.fail_after(5):
        assert await off_loop("test", lambda: 1) == 1
    release.set()
    await _joined(hung)
    assert ABANDONED["test.hang"] == 0


async def test_an_idle_thread_ends(monkeypatch):
    monkeypatch.setattr(threads, "_IDLE_S", 0.0)
    await _joined([await off_loop("test", threading.current_thread)])
    assert await off_loop("test", lambda: 2) == 2


async def _joined(threads):
    with anyio.fail_after(5):
        for thread in list(threads):
            await anyio.to_thread.run_sync(thread.join, abandon_on_cancel=True)


class Large:
    """Something to hold on to."""


async def test_a_thread_holds_neither_what_it_used_nor_what_it_returned():
    used, returned = Large(), Large()
    references = [weakref.ref(used), weakref.ref(returned)]
    answer = await off_loop("test", lambda held=used, answer=returned: answer)
    assert answer is returned
    del used, returned, answer
    assert [reference() for reference in references] == [None, None]
