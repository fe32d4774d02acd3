"""Author code off the loop: answers come back to whoever asked, threads that hang are counted and replaced."""

import contextvars
import functools
import threading

import anyio
import anyio.to_thread
import pytest

from sandlot import author
from sandlot.author import ABANDONED, MAX_THREADS, call, is_async, name_of, off_loop


def plain(value):
    return value


async def awaited(value):
    return value


class Callable:
    __hash__ = None

    def __call__(self, value):
        return value


class AsyncCallable:
    async def __call__(self, value):
        return value


@pytest.mark.parametrize("function", [plain, awaited, Callable(), AsyncCallable(), functools.partial(plain)])
async def test_every_kind_of_callable_gives_its_value(function):
    assert await call(function, 7) == 7


def test_async_is_told_by_what_is_wrapped():
    @functools.wraps(awaited)
    def wrapper(value):
        return awaited(value)

    assert is_async(wrapper)
    assert name_of(wrapper).endswith("awaited")
    assert not is_async(plain)


async def test_many_at_once_each_get_their_own_answer():
    got = {}

    async def ask(number):
        got[number] = await call(plain, number)

    async with anyio.create_task_group() as group:
        for number in range(500):
            group.start_soon(ask, number)
    assert got == {number: number for number in range(500)}


async def test_an_error_passes_through_as_it_is():
    def explode():
        raise KeyError("x")

    with pytest.raises(KeyError, match="x"):
        await call(explode)


async def test_it_runs_in_another_thread_with_the_callers_context():
    seen = contextvars.ContextVar("seen")
    seen.set("mine")
    assert await call(lambda: (seen.get(), threading.current_thread() is threading.main_thread())) == ("mine", False)


async def test_hanging_threads_are_counted_replaced_and_uncounted_when_they_return(monkeypatch):
    monkeypatch.setattr(author, "IDLE_S", 0.0)
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
        assert await call(plain, 1) == 1
    release.set()
    await _joined(hung)
    assert ABANDONED["test.hang"] == 0


async def test_an_idle_thread_ends(monkeypatch):
    monkeypatch.setattr(author, "IDLE_S", 0.0)
    await _joined([await call(threading.current_thread)])
    assert await call(plain, 2) == 2


async def _joined(threads):
    with anyio.fail_after(5):
        for thread in list(threads):
            await anyio.to_thread.run_sync(thread.join, abandon_on_cancel=True)
