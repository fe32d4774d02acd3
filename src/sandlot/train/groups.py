"""Groups of rollouts in the order of their choices (`choices.py`), started as early as staleness allows, never discarded.

Staleness is bounded by admission: with B groups per step and a bound of E versions, at most (E + 1) B groups are started beyond
those that the last published version was trained on. Groups are used in the order they were started, B or more per step, so one
that started at version v is used at v + E at the latest. A crash loses nothing: stored rollouts are read and not taken again.
"""

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager

import anyio
import anyio.abc

from sandlot.core.errors import unwrapped
from sandlot.core.trace import Trace
from sandlot.train.choices import TaskChoice, TaskChoices

Take = Callable[[TaskChoice, int], Awaitable[Trace]]
"""One rollout of a chosen task by its number: read if it is stored, else taken and stored."""


class Groups:
    """The groups that the loop learns from. Open it with `open_groups`."""

    def __init__(
        self,
        take: Take,
        choices: TaskChoices,
        *,
        size: int,
        step: int,
        staleness: int,
        first: int,
        steps: int | None = None,
    ) -> None:
        self._take, self._choices, self._size = take, choices, size
        self._step, self._staleness = step, staleness
        self.taken = first
        """Groups that the loop has used; the number of the next one."""
        self._settled = first
        """Groups that the published weights were trained on."""
        self._wanted = first
        self._steps = steps
        """Remaining steps: no group is started beyond them; None for no end."""
        self._changed = anyio.Event()
        self._done: dict[int, list[Trace]] = {}

    @property
    def weights(self) -> dict[str, float]:
        """The mean sampling weight of each environment's tasks."""
        return self._choices.means

    async def next(self, count: int) -> list[tuple[TaskChoice, list[Trace]]]:
        """The next groups in order, when all their rollouts have ended."""
        self._wanted = self.taken + count
        self._notify()
        return [await self._one() for _ in range(count)]

    async def _one(self) -> tuple[TaskChoice, list[Trace]]:
        while self.taken not in self._done:
            await self._changed.wait()
        traces = self._done.pop(self.taken)
        choice = self._choices.at(self.taken)
        self._choices.note(self.taken, traces)
        self.taken += 1
        return choice, traces

    def published(self) -> None:
        """Note that the weights trained on all groups so far are published."""
        self._settled = self.taken
        self._choices.settle()
        self._steps = self._steps - 1 if self._steps is not None else None
        self._notify()

    def _notify(self) -> None:
        self._changed.set()
        self._changed = anyio.Event()

    def _room(self) -> int:
        """How many groups may be started: what staleness allows, and what the current step waits for."""
        ahead = self._staleness + 1 if self._steps is None else min(self._staleness + 1, self._steps)
        return max(self._settled + ahead * self._step, self._wanted)

    async def begin(self, workers: anyio.abc.TaskGroup) -> None:
        """Start groups whenever there is room; never returns."""
        number = self.taken
        while True:
            while number >= self._room():
                await self._changed.wait()
            workers.start_soon(self._collect, number, self._choices.at(number))
            number += 1

    async def _collect(self, number: int, choice: TaskChoice) -> None:
        traces: list[Trace | None] = [None] * self._size

        async def one(member: int) -> None:
            traces[member] = await self._take(choice, choice.before * self._size + member)

        async with anyio.create_task_group() as members:
            for member in range(self._size):
                members.start_soon(one, member)
        self._done[number] = [trace for trace in traces if trace is not None]
        self._notify()


@asynccontextmanager
async def open_groups(groups: Groups) -> AsyncGenerator[Groups]:
    """Take rollouts in the background until the block ends."""
    try:
        async with anyio.create_task_group() as workers:
            workers.start_soon(groups.begin, workers)
            yield groups
            workers.cancel_scope.cancel()
    except BaseExceptionGroup as failures:
        raise unwrapped(failures) from failures
