import asyncio
import faulthandler
import os
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path

import anyio
import anyio.lowlevel
import pytest

from sandlot.core.concurrency import isolate
from sandlot.core.errors import ToolError
from unit.core.concurrency.small_process import found_by


async def until_gone(pid: int) -> None:
    try:
        pidfd = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    with anyio.fail_after(5):
        await anyio.wait_readable(pidfd)
    os.close(pidfd)


async def test_it_gives_back_what_a_closure_returns():
    base = 40
    assert await isolate.call(lambda number: base + number, 2) == 42


async def test_what_the_function_changes_is_not_seen_here():
    books = {"total": 1}
    assert await isolate.call(lambda: books.update(total=2)) is None
    assert books == {"total": 1}


async def test_a_raised_error_is_raised_here_with_its_own_type_and_kind():
    def refuse():
        raise ToolError("no such ticket", kind="missing")

    with pytest.raises(ToolError, match="no such ticket") as caught:
        await isolate.call(refuse)
    assert caught.value.kind == "missing"
    assert "in refuse" in caught.value.__notes__[0]


async def test_an_error_that_cannot_travel_still_says_what_it_was():
    class LocalError(Exception):
        pass

    def fail():
        raise LocalError("deep trouble")

    with pytest.raises(RuntimeError, match="LocalError: deep trouble"):
        await isolate.call(fail)


async def test_an_error_that_breaks_when_rebuilt_still_says_what_it_was():
    with pytest.raises(RuntimeError, match="PickyError"):
        await isolate.call(raise_picky)


class PickyError(Exception):
    def __init__(self, code: int, *, reason: str):
        super().__init__(f"{code} because {reason}")


def raise_picky():
    raise PickyError(7, reason="of it")


async def test_a_result_that_cannot_travel_is_refused_with_its_type():
    with pytest.raises(isolate.Untransferable, match="cannot be copied"):
        await isolate.call(threading.Lock)


async def test_leaving_the_process_is_told_with_the_exit_code():
    with pytest.raises(isolate.ChildDied, match="exit code 3"):
        await isolate.call(os._exit, 3)


async def test_a_crash_is_told_with_the_signal():
    with pytest.raises(isolate.ChildDied, match="SIGSEGV"):
        await isolate.call(lambda: (faulthandler.disable(), os.kill(os.getpid(), signal.SIGSEGV)))


async def test_sys_exit_does_not_leave_this_process():
    def leave():
        raise SystemExit(5)

    with pytest.raises(isolate.ChildDied, match=r"SystemExit\(5\)"):
        await isolate.call(leave)


async def pid_then_cancel(hang: Callable[[], None], pipe: Path) -> int:
    """Call it, cancel once it has written a process's number to the pipe, and return the number."""
    os.mkfifo(pipe)
    reading = os.open(pipe, os.O_RDWR)
    async with anyio.create_task_group() as group:
        group.start_soon(isolate.call, hang)
        await anyio.wait_readable(reading)
        group.cancel_scope.cancel()
    pid = int(os.read(reading, 32))
    os.close(reading)
    return pid


async def test_a_function_that_hangs_is_killed_when_it_is_cancelled(tmp_path: Path):
    pipe = tmp_path / "pid"

    def hang():
        pipe.write_text(str(os.getpid()))
        while True:
            pass

    await until_gone(await pid_then_cancel(hang, pipe))


async def test_processes_it_started_die_with_it(tmp_path: Path):
    pipe = tmp_path / "pid"

    def spawn_and_hang():
        child = os.fork()
        if child:
            pipe.write_text(str(child))
        time.sleep(3600)

    await until_gone(await pid_then_cancel(spawn_and_hang, pipe))


async def test_a_memory_eater_meets_its_limit():
    with pytest.raises(MemoryError):
        await isolate.call(lambda: len(bytearray(2**30)), memory_bytes=2**28)


async def test_a_result_over_the_size_cap_is_refused():
    with pytest.raises(isolate.Untransferable, match="the limit is 67,108,864"):
        await isolate.call(lambda: bytes(isolate.MAX_RESULT_BYTES))


async def test_closing_every_descriptor_is_not_an_answer():
    def close_all():
        os.closerange(3, 4096)

    with pytest.raises(isolate.ChildDied, match="exit code"):
        await isolate.call(close_all)


async def test_an_async_function_is_refused():
    async def wait():
        pass

    with pytest.raises(TypeError, match="is async"):
        await isolate.call(wait)


async def test_the_function_may_run_an_event_loop_of_its_own():
    async def inner():
        await anyio.lowlevel.checkpoint()
        return "done"

    assert await isolate.call(lambda: asyncio.run(inner())) == "done"
    assert await isolate.call(lambda: anyio.run(inner)) == "done"


async def test_printing_does_not_reach_this_stdout(capfd: pytest.CaptureFixture[str]):
    print("held", end="")  # noqa: T201 - stays in the parent's buffer while the child lives
    await isolate.call(lambda: print("loud"))  # noqa: T201 - what an author might leave in
    out, err = capfd.readouterr()
    assert (out, err) == ("held", "loud\n")


def test_many_calls_at_once_all_answer_beside_busy_threads():
    answers = found_by("calls_beside_busy_threads")
    assert len(answers) > isolate.MAX_CHILDREN
    assert sorted(answers) == [number * 2 for number in range(len(answers))]
