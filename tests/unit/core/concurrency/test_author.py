"""Author code: wherever it belongs, and it ends itself at most, never the run."""

import functools

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
