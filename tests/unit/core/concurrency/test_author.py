"""Author code: wherever it belongs, and it ends itself at most, never the run."""

import asyncio
import functools

import anyio
import pytest

from sandlot.core.concurrency.author import call, is_async, name_of


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


async def test_an_error_passes_through_as_it_is():
    def explode():
        raise KeyError("x")

    with pytest.raises(KeyError, match="x"):
        await call(explode)


@pytest.mark.parametrize("kind", ["sync", "async"])
async def test_code_that_exits_does_not_end_the_run(kind):
    def leave():
        raise SystemExit(0)

    async def leave_async():
        raise SystemExit(0)

    with pytest.raises(RuntimeError, match=r"called exit\(0\)"):
        await call(leave if kind == "sync" else leave_async)


class Panic(BaseException):
    """As a panic of code in Rust."""


@pytest.mark.parametrize(
    "odd", [Panic("index 7"), BaseExceptionGroup("two", [asyncio.CancelledError(), ValueError("x")]), GeneratorExit("closed")]
)
async def test_what_is_no_exception_does_not_end_the_run(odd):
    """Such an error in an `async def` tool ended all rollouts of the run."""

    async def explode():
        raise odd

    with pytest.raises(RuntimeError, match=f"it raised {type(odd).__name__}: "):
        await call(explode)


async def test_a_call_that_is_closed_from_outside_ends_without_an_error():
    """As Python does with a task that nobody holds any more."""
    waiting = call(anyio.sleep_forever)

    async def step():
        waiting.send(None)

    async with anyio.create_task_group() as group:
        group.start_soon(step)
    waiting.close()


async def test_a_group_that_holds_a_cancellation_passes_if_it_was_cancelled():
    async def wait():
        try:
            await anyio.sleep_forever()
        except asyncio.CancelledError as cancelled:
            raise BaseExceptionGroup("both", [cancelled, ValueError("x")]) from None

    async def cancelled():
        with anyio.CancelScope() as scope:
            scope.cancel()
            await call(wait)

    with pytest.raises(BaseExceptionGroup, match="both"):
        await cancelled()
