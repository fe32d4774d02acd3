"""What a room's admission is told, and what is recorded of it."""

from contextlib import ExitStack, asynccontextmanager
from dataclasses import replace

import anyio
import pytest

from sandlot.core.concurrency.clock import Clock
from sandlot.core.errors import ModelError
from sandlot.model.wire.server_load import LoadOf, ServerLoad
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

    async def look(self, *, refused: int = 0, seconds: float = 1.0) -> None:
        """A second passes: every rollout in flight takes five turns."""
        self.now += seconds
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
                await desk.look(seconds=5.0)
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


@asynccontextmanager
async def opened_desk(**loads: LoadOf | None):
    """A desk with a run for each model, named as it is."""
    async with anyio.create_task_group() as group:
        desk = Desk(group)
        await anyio.wait_all_tasks_blocked()
        with ExitStack() as joined:
            for name, load in loads.items():
                run = desk.watch.joined(name, desk.events.append, sandboxed=False, here=True, model=name, load=load)
                joined.enter_context(run)
            yield desk
        group.cancel_scope.cancel()


async def test_a_reading_of_the_servers_counts_once_and_only_at_the_limit_it_was_asked_at():
    async def load() -> ServerLoad:
        return ServerLoad(queued=50)

    async with opened_desk(m=load) as desk:
        desk.host = HostReading()
        for _ in range(4):
            await desk.look()
        assert desk.slots.in_flight == 64
        await desk.watch.ask_once()
        await desk.look()
        cut = desk.room.limit
        assert (cut < 64, desk.slots.waits) == (True, Waits.QUEUE)
        desk.slots.demand.in_flight = cut  # the cut has taken effect
        for _ in range(3):
            await desk.look()
        assert desk.room.limit == cut, "no second cut without another reading"
        await desk.watch.ask_once()
        desk.watch.admission.num_changes += 1
        await desk.look()
        assert desk.room.limit == cut, "it was asked before the limit changed"


async def test_the_cache_of_one_model_is_not_filled_by_the_rollouts_of_another():
    async def holds() -> ServerLoad:
        return ServerLoad(cache_tokens=100_000)

    async def says_nothing() -> ServerLoad:
        return ServerLoad()

    def turn(run: str) -> TurnTaken:
        return TurnTaken(run=run, task="t", rollout=0, turn=1, prompt_tokens=60_000, completion_tokens=1, seconds=1.0)

    async with opened_desk(own=holds, other=says_nothing) as desk:
        desk.host = HostReading()
        await desk.watch.ask_once()
        desk.watch.receive(turn("other"))
        await desk.look()
        assert desk.slots.waits is Waits.PACE
        desk.watch.receive(turn("own"))
        await desk.look()
        assert desk.slots.waits is Waits.CACHE


@pytest.mark.parametrize("answer", [3, None, "no", ModelError("gone", kind="connect"), ZeroDivisionError("a plug-in's own")])
async def test_whatever_a_model_says_about_its_servers_the_run_goes_on(answer):
    async def load() -> ServerLoad:
        if isinstance(answer, Exception):
            raise answer
        return answer  # pyright: ignore[reportReturnType]

    async with opened_desk(m=load) as desk:
        await desk.watch.ask_once()
        await desk.look()
        assert desk.slots.waits is Waits.PACE


async def test_the_machine_is_read_once_a_second_and_not_before_a_run_is_open():
    async with anyio.create_task_group() as group:
        desk = Desk(group)
        read: list[float] = []
        desk.watch.host = lambda: read.append(desk.now) or IDLE
        await desk.look()
        assert not read, "a model may be loaded: what it takes is not what rollouts take"
        with desk.watch.joined("r", desk.events.append, sandboxed=True, here=True):
            for _ in range(8):
                await desk.look(seconds=0.25)
        assert read == [101.25, 102.25]
        group.cancel_scope.cancel()


async def test_a_reason_that_changes_all_the_time_is_reported_once_a_second():
    async with opened_desk(m=None) as desk:
        desk.host = HostReading()
        for number in range(40):
            desk.watch.admission.reason = (Waits.PACE, Waits.MODEL)[number % 2]
            desk.now += 0.25
            desk.watch.look()
        assert 8 <= len(desk.events) <= 12


async def test_a_room_that_does_not_adapt_is_not_watched():
    async with watch_admission(Room(4)) as watch:
        assert watch is None


async def test_an_error_inside_the_block_is_raised_as_it_is():
    with pytest.raises(KeyError, match="mine"):
        async with watch_admission(Room(4, adapt=True)):
            raise KeyError("mine")
