import threading

import anyio
import anyio.lowlevel
import pytest

from sandlot import author


@pytest.fixture(autouse=True)
def _clean():
    author.ABANDONED.clear()
    yield
    author.ABANDONED.clear()


async def test_async_code_runs_on_the_loop_and_sync_code_off_it():
    here = threading.get_ident()

    async def on_loop():
        return threading.get_ident()

    assert await author.call(on_loop) == here
    assert await author.call(threading.get_ident) != here


async def test_errors_pass_through_as_they_are():
    def fail(value):
        raise KeyError(value)

    with pytest.raises(KeyError, match="month"):
        await author.call(fail, "month")


async def test_a_thread_past_its_deadline_is_counted_until_it_does_return():
    release = threading.Event()

    def stuck():
        release.wait()

    with anyio.move_on_after(0.05):
        await author.call(stuck)
    assert author.ABANDONED[author.name_of(stuck)] == 1
    release.set()
    with anyio.fail_after(5):
        while author.ABANDONED[author.name_of(stuck)]:
            await anyio.lowlevel.checkpoint()


async def test_work_that_never_began_is_not_counted(monkeypatch):
    release, entered = threading.Event(), anyio.Event()
    limiter = anyio.CapacityLimiter(1)
    monkeypatch.setattr(author, "_limiter", lambda: limiter)
    seen = []

    async def hold():
        entered.set()
        await author.off_loop("holder", release.wait)

    async with anyio.create_task_group() as group:
        group.start_soon(hold)
        await entered.wait()
        with anyio.move_on_after(0.05):
            await author.off_loop("queued", lambda: seen.append(1))
        assert author.ABANDONED["queued"] == 0
        release.set()
    assert seen == []


@pytest.mark.parametrize("kind", ["sync", "async"])
async def test_code_that_exits_does_not_end_the_run(kind):
    def leave():
        raise SystemExit(0)

    async def leave_async():
        raise SystemExit(0)

    with pytest.raises(RuntimeError, match=r"called exit\(0\)"):
        await author.call(leave if kind == "sync" else leave_async)
