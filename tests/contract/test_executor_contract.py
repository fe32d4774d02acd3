"""What every `Executor` promises. A third party adds its own to `executors.OPENERS` and runs this file."""

import itertools
import time

import anyio
import pytest

from sandlot.core.trace import Failed, Scored, Trace
from sandlot.core.types import Side
from sandlot.observe.events import RolloutGraded, ToolCalled, TurnTaken
from sandlot.store.blobs import MemoryBlobs
from worlds.executors import OPENERS, chores, config_of, opened, plan_of

pytestmark = pytest.mark.timeout(300)


@pytest.fixture(params=OPENERS)
def name(request) -> str:
    return request.param


async def test_a_rollout_comes_with_its_score_its_events_and_its_files(name, tmp_path):
    blobs, events, task = MemoryBlobs(), [], chores("short")[1]
    async with opened(name, plan_of(tmp_path)) as executor:
        trace = await executor.run(task, 3, run="r/1", blobs=blobs, sink=events.append)
        kinds, load = [type(event) for event in events], executor.load
    assert load is None or (load.num_workers > 0 and load.num_waiting == 0)
    assert isinstance(trace, Trace)
    assert (trace.run, trace.task, trace.rollout) == ("r/1", "short-1", 3)
    assert isinstance(trace.outcome, Scored)
    assert trace.outcome.score.value == 1.0
    files = trace.evidence.files
    assert (await blobs.get(files["/out/done.txt"].blob)).decode() == f"{task.key['words']} " * 50
    assert {TurnTaken, ToolCalled, RolloutGraded} <= set(kinds), "all of them before it returns"
    assert all((event.run, event.task, event.rollout) == ("r/1", "short-1", 3) for event in events)


async def test_a_rollout_that_fails_does_not_raise(name, tmp_path):
    async with opened(name, plan_of(tmp_path)) as executor:
        trace = await executor.run(chores("broken")[0], 0, run="r", blobs=MemoryBlobs(), sink=lambda event: None)
    assert isinstance(trace, Trace)
    assert isinstance(trace.outcome, Failed)
    assert trace.outcome.side == Side.ENVIRONMENT
    assert "this chore is broken" in trace.outcome.message


async def test_many_at_once_come_back_each_once_and_each_to_who_asked(name, tmp_path):
    asked = list(itertools.product(chores("short") + chores("long"), range(6)))
    blobs, found, events = MemoryBlobs(), [], {}

    async def one(task, number):
        sink = events.setdefault((task.id, number), []).append
        trace = await executor.run(task, number, run="r", blobs=blobs, sink=sink)
        found.append(((task.id, number), trace.key))

    async with opened(name, plan_of(tmp_path)) as executor, anyio.create_task_group() as group:
        for task, number in asked:
            group.start_soon(one, task, number)
    assert all(wanted == came for wanted, came in found)
    assert sorted(came for _, came in found) == sorted((task.id, number) for task, number in asked)
    assert all((event.task, event.rollout) == key for key, each in events.items() for event in each)


async def test_what_is_drawn_depends_on_run_task_and_rollout_alone(tmp_path):
    config, said = config_of("scripted:mixed:0.5", seed=7), {}
    for name in OPENERS:
        async with opened(name, plan_of(tmp_path, config)) as executor:
            for number in range(8):
                trace = await executor.run(chores("short")[0], number, run="r", blobs=MemoryBlobs(), sink=lambda event: None)
                said.setdefault(name, []).append((trace.seed, trace.reward, [node.message for node in trace.nodes]))
    first, *others = said.values()
    assert {reward for _, reward, _ in first} == {0.0, 1.0}
    assert all(each == first for each in others)


async def test_one_that_is_cancelled_is_closed(name, tmp_path, monkeypatch):
    monkeypatch.setenv("MARKS", str(tmp_path))

    def marks(kind: str) -> int:
        return len(list(tmp_path.glob(f"{kind}-*")))

    async def until(kind: str) -> None:
        with anyio.fail_after(60):
            while not marks(kind):  # noqa: ASYNC110 - another process makes it
                await anyio.sleep(0.02)

    async with opened(name, plan_of(tmp_path)) as executor:
        async with anyio.create_task_group() as group:
            task = chores("endless")[0]
            group.start_soon(lambda: executor.run(task, 0, run="r", blobs=MemoryBlobs(), sink=lambda event: None))
            await until("began")
            group.cancel_scope.cancel()
        await until("closed")
        trace = await executor.run(chores("short")[0], 0, run="r", blobs=MemoryBlobs(), sink=lambda event: None)
        assert trace.reward == 1.0, "it goes on with others"


async def test_one_that_is_closed_leaves_nothing_open(name, tmp_path, monkeypatch):
    monkeypatch.setenv("MARKS", str(tmp_path))
    began = time.monotonic()
    with anyio.move_on_after(60) as scope:
        async with opened(name, plan_of(tmp_path)) as executor, anyio.create_task_group() as group:
            for number in range(4):
                task = chores("endless")[number]
                group.start_soon(lambda task=task: executor.run(task, 0, run="r", blobs=MemoryBlobs(), sink=lambda event: None))
            while len(list(tmp_path.glob("began-*"))) < 4:  # noqa: ASYNC110 - another process makes them
                await anyio.sleep(0.02)
            scope.cancel()
    assert len(list(tmp_path.glob("closed-*"))) == 4, f"after {time.monotonic() - began:.0f} s"
