"""How an executor with workers stands, told to the run's sinks: metrics show it, and an autoscaler can follow it."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import anyio

from sandlot.core.errors import unwrapped
from sandlot.observe.events import Sink, WorkersCounted
from sandlot.run.executors.executor import Executor, ExecutorLoad

_LOOK_S = 2.0
"""Between two looks."""


@asynccontextmanager
async def reported_load(executor: Executor, run: str, sink: Sink) -> AsyncGenerator[None]:
    """Send `WorkersCounted` when the load has changed, until the block ends."""
    try:
        async with anyio.create_task_group() as group:
            group.start_soon(_report, executor, run, sink)
            yield
            group.cancel_scope.cancel()
        sink(WorkersCounted(run=run, num_workers=0, num_waiting=0))
    except BaseExceptionGroup as errors:
        raise unwrapped(errors) from errors


async def _report(executor: Executor, run: str, sink: Sink) -> None:
    told: ExecutorLoad | None = None
    while True:
        load = executor.load
        if load is not None and load != told:
            told = load
            sink(WorkersCounted(run=run, num_workers=load.num_workers, num_waiting=load.num_waiting))
        await anyio.sleep(_LOOK_S)
