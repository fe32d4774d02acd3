"""What a room's admission is told, and what is recorded of it."""

from dataclasses import replace

import anyio
import pytest

from sandlot.core.concurrency.clock import Clock
from sandlot.core.errors import ModelError
from sandlot.model.wire.server_load import ServerLoad
from sandlot.observe.events import AdmissionChanged, ModelRetried, RolloutBegan, TurnTaken, WorldOpened
from sandlot.observe.host import HostReading
from sandlot.run.admission_watch import AdmissionWatch, watch_admission
from sandlot.run.schedule.job import Waits
from sandlot.run.slots import Room, Slots

GIB = 1 << 30
IDLE = HostReading(cpus=2, runnable=0.0, free_bytes=20 * GIB, total_bytes=24 * GIB, memory_stall=0.0)


class Desk:
    """A room with endless rollouts that wait, a clock that is set, and a machine that says what it is told to."""

    def __init__(self, group: anyio.abc.TaskGroup, at_once: int = 64) -> None:
        self.now, self.host, self.events = 100.0, IDLE, []
        self.room = Room(at_once, adapt=True)
        self.slots = Slots(at_once, room=self.room)
        assert self.room.admission is not None
        self.watch = AdmissionWatch(
            self.room, self.room.admission, host=lambda: self.host, clock=Clock(lambda: self.now, lambda: self.now)
        )
        for number in range(at_once + 8):
            group.start_soon(self._wait, number)

    async def _wait(self, number: int) -> None:
        await self.slots.enter()
        for event in (RolloutBegan, WorldOpened):
            more = {"seconds": 0.1} if event is WorldOpened else {}
            self.watch.receive(event(at=self.now, run="r", task="t", rollout=number, **more))

    async def look(self, *, refused: int = 0) -> None:
        """A second passes: every rollout in flight takes five turns."""
        self.now += 1
        for _ in range(5 * self.slots.in_flight):
            turn = TurnTaken(at=self.now, run="r", task="t", rollout=0, turn=1, prompt_tokens=0, completion_tokens=0, seconds=0.2)
            self.watch.receive(turn)
        for _ in range(refused):
            self.watch.receive(ModelRetried(at=self.now, run="r", task="t", rollout=0, by="agent", kind="rate_limit", wait_s=1.0))
        self.watch.look()
        await anyio.wait_all_tasks_blocked()


async def test_more_rollouts_start_as_long_as_nothing_is_short_and_every_change_is_an_event():
    async with anyio.create_task_group() as group:
        desk = Desk(group)
        await anyio.wait_all_tasks_blocked()
        with desk.watch.joined("r", desk.events.append, sandboxed=True, here=True):
            for _ in range(5):
                await desk.look()
            assert desk.slots.in_flight == 64
        assert [(event.limit, event.reason) for event in desk.events] == [(8, "pace"), (16, "pace"), (32, "pace"), (64, "limit")]
        assert all(isinstance(event, AdmissionChanged) and event.run == "r" for event in desk.events)
        group.cancel_scope.cancel()


async def test_the_record_says_between_what_the_limit_was_and_what_was_waited_for():
    async with anyio.create_task_group() as group:
        desk = Desk(group)
        await anyio.wait_all_tasks_blocked()
        for _ in range(4):
            await desk.look()
        await desk.look(refused=100)
        record = desk.watch.record()
        assert (record.lowest, record.highest, record.last) == (8, 64, 32)
        assert record.seconds == {"pace": 4.0, "limit": 1.0}
        assert "8 to 64 in flight, 32 at the end; waited for: pace 4 s, limit 1 s" in record.describe()
        assert (desk.slots.waits, desk.slots.in_flight) == (Waits.MODEL, 64), "those in flight stay"
        group.cancel_scope.cancel()


async def test_memory_of_this_machine_stops_starts_and_that_of_others_does_not():
    async with anyio.create_task_group() as group:
        desk = Desk(group)
        await anyio.wait_all_tasks_blocked()
        desk.host = replace(IDLE, free_bytes=GIB)
        with desk.watch.joined("r", desk.events.append, sandboxed=True, here=True):
            await desk.look()
            assert (desk.slots.in_flight, desk.slots.waits) == (4, Waits.MEMORY)
        with desk.watch.joined("r", desk.events.append, sandboxed=True, here=False):
            await desk.look()
            assert desk.slots.in_flight == 8
        group.cancel_scope.cancel()


async def test_the_queue_of_the_model_s_servers_is_asked_once_for_each_model():
    asked: list[str] = []

    async def load(name: str) -> ServerLoad:
        asked.append(name)
        if name == "gone":
            raise ModelError("gone", kind="connect")
        return ServerLoad(queued=50)

    async with anyio.create_task_group() as group:
        desk = Desk(group)
        await anyio.wait_all_tasks_blocked()
        options = {"sandboxed": False, "here": True}
        with (
            desk.watch.joined("r", desk.events.append, **options, model="m", load=lambda: load("m")),
            desk.watch.joined("s", desk.events.append, **options, model="m", load=lambda: load("m")),
            desk.watch.joined("t", desk.events.append, **options, model="gone", load=lambda: load("gone")),
        ):
            await desk.watch.ask_once()
            assert sorted(asked) == ["gone", "m"]
            await desk.look()
        assert desk.slots.waits is Waits.QUEUE
        group.cancel_scope.cancel()


async def test_a_room_that_does_not_adapt_is_not_watched():
    async with watch_admission(Room(4)) as watch:
        assert watch is None


async def test_an_error_inside_the_block_is_raised_as_it_is():
    with pytest.raises(KeyError, match="mine"):
        async with watch_admission(Room(4, adapt=True)):
            raise KeyError("mine")
