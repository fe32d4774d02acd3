import anyio
import pytest

from sandlot.core.concurrency.clock import deadline, delay_limits, extend_limits, pause_limits, time_limit, timed
from sandlot.core.errors import AuthorError, GradeError


async def test_a_deadline_blames_its_side():
    with pytest.raises(AuthorError, match=r"setup: took longer than 0\.02 s") as caught, deadline(0.02, AuthorError, "setup"):
        await anyio.sleep_forever()
    assert caught.value.kind == "timeout"


async def test_an_error_inside_gets_the_side_too():
    with pytest.raises(GradeError, match="check: ValueError: no"), deadline(5, GradeError, "check"):
        raise ValueError("no")


async def test_an_outer_deadline_is_not_taken_for_the_inner_one():
    with anyio.move_on_after(0.02) as outer:
        with deadline(5, AuthorError, "inner"):
            await anyio.sleep_forever()
    assert outer.cancelled_caught


async def test_a_time_limit_running_out_is_no_error():
    with time_limit(0.02) as scope:
        await anyio.sleep_forever()
    assert scope.cancelled_caught


async def test_excused_time_does_not_count():
    with time_limit(0.05) as scope:
        with pause_limits():
            assert scope.deadline == float("inf")
            await anyio.sleep(0.1)
        left = scope.deadline - anyio.current_time()
    assert not scope.cancelled_caught
    assert 0 < left <= 0.05


async def test_time_may_be_given_back():
    with time_limit(10) as scope:
        before = scope.deadline
        extend_limits(5)
        assert scope.deadline == before + 5


async def test_without_an_agent_there_is_nothing_to_excuse():
    with pause_limits():
        pass
    extend_limits(3)


def test_time_adds_up_by_name():
    sums: dict[str, float] = {}
    for _ in range(2):
        with timed(sums, "model"):
            pass
    assert list(sums) == ["model"]


async def test_several_who_wait_stop_the_clock_once_and_the_last_starts_it():
    first_in, second_in, first_out = anyio.Event(), anyio.Event(), anyio.Event()

    async def first():
        with pause_limits():
            first_in.set()
            await second_in.wait()
        first_out.set()

    async def second():
        await first_in.wait()
        with pause_limits():
            second_in.set()
            await first_out.wait()
            assert scope.deadline == float("inf")

    with time_limit(5) as scope:
        async with anyio.create_task_group() as group:
            group.start_soon(first)
            group.start_soon(second)
        assert 0 < scope.deadline - anyio.current_time() <= 5


async def test_a_limit_that_is_held_back_goes_on_counting_and_ends_what_follows():
    with time_limit(0.02) as scope:
        with delay_limits():
            await anyio.sleep(0.05)
            assert not scope.cancel_called
        assert scope.cancel_called
        await anyio.sleep_forever()
    assert scope.cancelled_caught


async def test_a_limit_that_is_held_back_while_its_clock_is_stopped_keeps_what_was_left():
    with time_limit(5) as scope:
        with delay_limits(), pause_limits():
            extend_limits(2)
        assert 6.9 < scope.deadline - anyio.current_time() <= 7.1
