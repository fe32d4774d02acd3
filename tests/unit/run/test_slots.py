"""Room for rollouts: the limit, the pause and the order hold whatever is changed meanwhile."""

import anyio
import anyio.lowlevel
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandlot.run.slots import Slots


async def test_no_more_enter_than_there_is_room_for_and_in_the_order_they_came():
    slots, entered = Slots(2), []

    async def work(number: int) -> None:
        async with slots.hold():
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
        async with slots.hold():
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
    with anyio.fail_after(1):
        slots.leave(await slots.enter())


async def test_slots_beside_are_their_own_and_follow_every_change():
    slots = Slots(1)
    slots.pause()
    beside = slots.open_beside()
    assert beside.paused
    slots.resume()
    async with slots.hold(), beside.hold():
        assert slots.in_flight == 2
    slots.resize(7)
    slots.pause()
    assert (beside.at_once, beside.paused) == (7, True)


@given(st.lists(st.sampled_from(["pause", "resume", "one", "three"]), max_size=12))
async def test_every_rollout_gets_its_turn_whatever_is_changed(changes):
    slots, ended, most = Slots(2), [], 0

    async def work(number: int) -> None:
        nonlocal most
        async with slots.hold():
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
