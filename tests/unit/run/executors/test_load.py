"""What sinks are told about workers."""

import anyio

from sandlot.observe.events import WorkersCounted
from sandlot.run.executors import load as reporting
from sandlot.run.executors.executor import ExecutorLoad
from sandlot.run.executors.load import reported_load


class Counted:
    load = ExecutorLoad(0, 8)


async def test_the_load_is_told_when_it_changes_and_is_nothing_in_the_end(monkeypatch):
    monkeypatch.setattr(reporting, "_LOOK_S", 0.01)
    executor, told = Counted(), []

    def note(event: WorkersCounted) -> None:
        told.append((event.run, event.num_workers, event.num_waiting))

    async with reported_load(executor, "r", note):
        while not told:  # noqa: ASYNC110 - a sink cannot wake anyone
            await anyio.sleep(0.01)
        await anyio.sleep(0.1)  # nothing has changed, so nothing is told
        executor.load = ExecutorLoad(1, 0)
        while len(told) < 2:  # noqa: ASYNC110 - as above
            await anyio.sleep(0.01)
    assert told == [("r", 0, 8), ("r", 1, 0), ("r", 0, 0)]
