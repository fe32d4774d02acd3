"""Blocking calls of async functions: the same results and errors, and Ctrl-C always ends in `KeyboardInterrupt`."""

import inspect
import os
import signal
import threading
from collections.abc import Generator

import anyio
import anyio.lowlevel
import pytest

from sandlot.core.concurrency.blocking import Terminated, blocking, handle_sigterm, run_interruptible


async def add_slowly(a: int, b: int = 1) -> int:
    """Add two numbers."""
    await anyio.lowlevel.checkpoint()
    if a < 0:
        raise ValueError(f"a is {a}")
    return a + b


add = blocking("add", add_slowly)


@pytest.fixture
def handler() -> Generator[None]:
    """Ctrl-C as in a program of its own."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    signal.signal(signal.SIGINT, before)


@pytest.fixture
def terminable(handler: None) -> Generator[None]:
    """SIGTERM as in a command."""
    before = signal.signal(signal.SIGTERM, signal.SIG_DFL)
    handle_sigterm()
    mine = signal.getsignal(signal.SIGTERM)
    yield
    assert signal.getsignal(signal.SIGTERM) in {mine, signal.SIG_DFL}
    signal.signal(signal.SIGTERM, before)


def test_it_has_the_name_the_signature_and_the_docstring_of_the_function():
    assert (add.__name__, add.__doc__) == ("add", "Add two numbers.")
    assert inspect.signature(add) == inspect.signature(add_slowly)


def test_it_returns_the_result_and_raises_the_error(handler):
    assert add(1, b=2) == 3
    with pytest.raises(ValueError, match="a is -1"):
        add(-1)


def test_wrong_arguments_are_refused_by_its_own_name():
    with pytest.raises(TypeError, match=r"^add\(\) missing a required argument: 'a'$"):
        add()


async def test_it_works_inside_a_running_loop():
    assert add(1) == 2
    with pytest.raises(ValueError, match="a is -1"):
        add(-1)


async def cancelled_at_once() -> None:
    signal.raise_signal(signal.SIGINT)
    await anyio.sleep_forever()


async def returns_all_the_same() -> str:
    try:
        await cancelled_at_once()
    except anyio.get_cancelled_exc_class():
        return "done"
    return "not cancelled"


async def fails_while_it_ends() -> None:
    async def fail() -> None:
        try:
            await anyio.sleep_forever()
        finally:
            raise ValueError("a worker died")

    async with anyio.create_task_group() as group:
        group.start_soon(fail)
        await anyio.wait_all_tasks_blocked()
        await cancelled_at_once()


async def runs_out_of_time_at_the_same_moment() -> str:
    with anyio.move_on_after(0):
        await cancelled_at_once()
    return "out of time"


@pytest.mark.parametrize(
    "function", [cancelled_at_once, returns_all_the_same, fails_while_it_ends, runs_out_of_time_at_the_same_moment]
)
def test_after_ctrl_c_nothing_else_is_raised_or_returned(handler, function):
    with pytest.raises(KeyboardInterrupt):
        run_interruptible(function)


def test_timeouts_are_no_interrupt(handler):
    async def wait() -> str:
        with anyio.move_on_after(0):
            await anyio.sleep_forever()
        return "went on"

    assert run_interruptible(wait) == "went on"


def test_a_handler_of_the_caller_decides_for_itself(handler):
    got = []

    async def interrupted() -> str:
        signal.raise_signal(signal.SIGINT)
        await anyio.lowlevel.checkpoint()
        return "went on"

    signal.signal(signal.SIGINT, lambda number, _frame: got.append(number))
    try:
        assert run_interruptible(interrupted) == "went on"
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    assert got == [signal.SIGINT]


def test_ctrl_c_inside_a_running_loop_closes_everything_first(handler):
    closed = []

    async def wait() -> None:
        try:
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
            await anyio.sleep_forever()
        finally:
            with anyio.CancelScope(shield=True):
                await anyio.lowlevel.checkpoint()
            closed.append(True)

    async def notebook() -> None:
        signal.signal(signal.SIGINT, signal.default_int_handler)  # as a notebook has it
        with pytest.raises(KeyboardInterrupt):
            blocking("wait", wait)()
        assert closed

    anyio.run(notebook)


def test_sigterm_closes_what_is_open_and_raises(terminable):
    closed = []

    async def work() -> None:
        try:
            signal.raise_signal(signal.SIGTERM)
            await anyio.sleep_forever()
        finally:
            await anyio.lowlevel.cancel_shielded_checkpoint()
            closed.append(True)

    with pytest.raises(Terminated):
        run_interruptible(work)
    assert closed == [True]


def test_sigterm_outside_of_a_loop_raises_once_and_then_kills(terminable):
    with pytest.raises(Terminated):
        signal.raise_signal(signal.SIGTERM)
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


@pytest.mark.parametrize("inside", [False, True])
def test_a_forked_child_ends_by_sigterm_and_cleans_nothing_up(terminable, tmp_path, inside):
    mark = tmp_path / "ours"
    mark.touch()

    def fork() -> int:
        child = os.fork()
        if child == 0:
            try:
                signal.raise_signal(signal.SIGTERM)
            finally:
                mark.unlink()
                os._exit(1)
        return os.waitpid(child, 0)[1]

    async def work() -> int:
        return fork()

    assert os.WTERMSIG(run_interruptible(work) if inside else fork()) == signal.SIGTERM
    assert mark.exists()
