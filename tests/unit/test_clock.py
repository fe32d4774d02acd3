import anyio
import pytest

from sandlot.clock import agent_time, deadline, excuse, excused, timed
from sandlot.errors import AuthorError, GradeError


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


async def test_agent_time_running_out_is_no_error():
    with agent_time(0.02) as scope:
        await anyio.sleep_forever()
    assert scope.cancelled_caught


async def test_excused_time_does_not_count():
    with agent_time(0.05) as scope:
        with excused():
            assert scope.deadline == float("inf")
            await anyio.sleep(0.1)
        left = scope.deadline - anyio.current_time()
    assert not scope.cancelled_caught
    assert 0 < left <= 0.05


async def test_time_may_be_given_back():
    with agent_time(10) as scope:
        before = scope.deadline
        excuse(5)
        assert scope.deadline == before + 5


async def test_without_an_agent_there_is_nothing_to_excuse():
    with excused():
        pass
    excuse(3)


def test_time_adds_up_by_name():
    sums: dict[str, float] = {}
    for _ in range(2):
        with timed(sums, "model"):
            pass
    assert list(sums) == ["model"]
