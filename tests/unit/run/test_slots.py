"""Room for rollouts: the limit, the pause and the order hold whatever is changed meanwhile."""

from contextlib import asynccontextmanager

import anyio
import anyio.lowlevel
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandlot.run.schedule.job import Waits
from sandlot.run.slots import RolloutStay, Room, Slots


@asynccontextmanager
async def held(slots: Slots):
    place = await slots.enter()
    try:
        yield
    finally:
        slots.leave(place)


async def test_no_more_enter_than_there_is_room_for_and_in_the_order_they_came():
    slots, entered = Slots(2), []

    async def work(number: int) -> None:
        async with held(slots):
            entered.append(number)
            await anyio.sleep_forever()

    async with anyio.create_task_group() as group:
        for number in range(6):
            group.start_soon(work, number)
        await anyio.wait_all_tasks_blocked()
        assert (entered, slots.in_flight) == ([0, 1], 2)
        slots.resize(4)
        await anyio.wait_all_tasks_blocked()
        assert entered == [0, 1, 2, 3]
        group.cancel_scope.cancel()
    assert slots.in_flight == 0


async def test_while_paused_none_enters_and_afterwards_all_do_in_order():
    slots, entered = Slots(1), []

    async def work(number: int) -> None:
        async with held(slots):
            entered.append(number)

    async with anyio.create_task_group() as group:
        slots.pause()
        for number in range(4):
            group.start_soon(work, number)
        await anyio.wait_all_tasks_blocked()
        assert (entered, slots.paused, slots.in_flight) == ([], True, 0)
        slots.resume()
    assert (entered, slots.paused) == ([0, 1, 2, 3], False)


async def test_who_is_cancelled_while_paused_leaves_room():
    slots = Slots(1)
    slots.pause()
    with anyio.move_on_after(0):
        await slots.enter()
    slots.resume()
    with anyio.fail_after(30):
        slots.leave(await slots.enter())


async def test_slots_beside_are_their_own_and_follow_every_change():
    slots = Slots(1)
    slots.pause()
    with slots.open_beside() as beside:
        assert beside.paused
        slots.resume()
        async with held(slots), held(beside):
            assert slots.in_flight == 2
        slots.resize(7)
        slots.pause()
        assert (beside.at_once, beside.paused) == (7, True)


async def test_slots_beside_a_run_that_adapts_are_in_the_same_room():
    room = Room(8, adapt=True)
    slots = Slots(8, room=room)
    with slots.open_beside() as beside:
        async with held(slots), held(beside):
            assert room.in_flight == slots.in_flight == 2
        with anyio.move_on_after(30) as scope:
            while room.in_flight < room.limit:
                await slots.enter()
            with anyio.move_on_after(0.01) as waiting:
                await beside.enter()
        assert waiting.cancelled_caught
        assert not scope.cancelled_caught
    assert room.in_flight == room.limit


@given(st.lists(st.sampled_from(["pause", "resume", "one", "three"]), max_size=12))
async def test_every_rollout_gets_its_turn_whatever_is_changed(changes):
    slots, ended, most = Slots(2), [], 0

    async def work(number: int) -> None:
        nonlocal most
        async with held(slots):
            most = max(most, slots.in_flight)
            await anyio.lowlevel.checkpoint()
            ended.append(number)

    with anyio.fail_after(10):
        async with anyio.create_task_group() as group:
            for number in range(9):
                group.start_soon(work, number)
            for change in changes:
                await anyio.lowlevel.checkpoint()
                {"pause": slots.pause, "resume": slots.resume, "one": lambda: slots.resize(1), "three": lambda: slots.resize(3)}[
                    change
                ]()
            slots.resume()
    assert sorted(ended) == list(range(9))
    assert most <= 3


@pytest.mark.parametrize("at_once", [1, 3])
async def test_how_many_may_be_in_flight_is_what_was_set(at_once):
    assert Slots(at_once).at_once == at_once


async def test_runs_in_one_room_share_it_by_what_each_still_needs():
    time = 0.0
    room = Room(12, clock=lambda: time)
    long, short = Slots(12, room=room), Slots(12, room=room)
    for slots, seconds in ((long, 9.0), (short, 1.0)):
        slots.demand.left = 100
        slots.demand.ended, slots.demand.seconds = 1000, 1000 * seconds

    async def work(slots: Slots) -> None:
        async with held(slots):
            await anyio.sleep_forever()

    async with anyio.create_task_group() as group:
        for slots in (short, long):
            for _ in range(20):
                group.start_soon(work, slots)
        await anyio.wait_all_tasks_blocked()
        # The first that ask get what is free; then the room follows need.
        assert long.in_flight + short.in_flight == 12
        short.pause()
        room.resize(24)
        await anyio.wait_all_tasks_blocked()
        assert long.in_flight + short.in_flight == 24
        group.cancel_scope.cancel()
    assert (long.in_flight, short.in_flight) == (0, 0)


async def test_a_place_that_becomes_free_goes_to_the_run_that_is_furthest_below_its_share():
    room = Room(4)
    few, many = Slots(4, room=room), Slots(4, room=room, weight=3)
    few.demand.left = many.demand.left = 50
    entered: list[str] = []

    async def work(name: str, slots: Slots, ends: anyio.Event) -> None:
        async with held(slots):
            entered.append(name)
            await ends.wait()

    ends = [anyio.Event() for _ in range(4)]
    async with anyio.create_task_group() as group:
        for end in ends:
            group.start_soon(work, "few", few, end)
        await anyio.wait_all_tasks_blocked()
        for _ in range(4):
            group.start_soon(work, "many", many, anyio.Event())
            group.start_soon(work, "few", few, anyio.Event())
        await anyio.wait_all_tasks_blocked()
        for end in ends:
            end.set()
            await anyio.wait_all_tasks_blocked()
        assert entered[4:] == ["many", "many", "many", "few"]
        group.cancel_scope.cancel()


async def test_who_is_let_in_and_cancelled_in_the_same_moment_leaves_room():
    slots = Slots(1)
    place = await slots.enter()

    async def work() -> None:
        async with held(slots):
            await anyio.sleep_forever()

    async with anyio.create_task_group() as group:
        group.start_soon(work)
        await anyio.wait_all_tasks_blocked()
        slots.leave(place)
        group.cancel_scope.cancel()
    assert slots.in_flight == 0
    with anyio.fail_after(30):
        slots.leave(await slots.enter())


# -- rooms that adapt --------------------------------------------------------------------------------------------------


async def test_in_a_room_that_adapts_as_many_start_as_its_admission_allows_and_the_others_have_a_reason():
    room = Room(64, adapt=True)
    slots = Slots(64, room=room)
    async with anyio.create_task_group() as group:
        for _ in range(10):
            group.start_soon(slots.enter)
        await anyio.wait_all_tasks_blocked()
        assert (slots.in_flight, slots.limit, slots.at_once, slots.waits) == (4, 4, 64, Waits.PACE)
        slots.pause()
        assert slots.waits is Waits.PAUSED
        slots.resume()
        slots.resize(2)
        assert (slots.limit, slots.waits) == (2, Waits.LIMIT)
        group.cancel_scope.cancel()
    assert slots.waits is None


async def test_a_run_that_has_all_it_may_have_waits_for_its_own_limit():
    slots = Slots(8, most=1)
    async with anyio.create_task_group() as group:
        for _ in range(2):
            group.start_soon(slots.enter)
        await anyio.wait_all_tasks_blocked()
        assert (slots.in_flight, slots.waits) == (1, Waits.LIMIT)
        group.cancel_scope.cancel()


async def test_once_the_judge_has_refused_a_rollout_that_is_graded_keeps_its_place_until_it_is():
    room = Room(64, adapt=True)
    assert room.admission is not None
    room.admission.counts_grading = True
    slots = Slots(64, room=room)
    await slots.enter()  # with none in flight, one always starts
    stays = [RolloutStay(slots) for _ in range(3)]
    for stay in stays:
        await stay.begin()
        await stay.to_grading()
    entered = anyio.Event()

    async def enter() -> None:
        await slots.enter()
        entered.set()

    async with anyio.create_task_group() as group:
        group.start_soon(enter)
        await anyio.wait_all_tasks_blocked()
        assert not entered.is_set()
        stays[0].end()
        with anyio.fail_after(30):
            await entered.wait()


async def test_with_none_in_flight_one_starts_however_many_are_graded():
    room = Room(64, adapt=True)
    assert room.admission is not None
    room.admission.counts_grading = True
    slots = Slots(64, room=room)
    with anyio.fail_after(30):
        for _ in range(8):  # twice as many as may be in flight at first
            stay = RolloutStay(slots)
            await stay.begin()
            await stay.to_grading()
    assert (slots.in_flight, slots.gradings.num_grading) == (0, 8)
