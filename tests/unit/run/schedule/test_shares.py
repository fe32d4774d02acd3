"""Room is divided by what each run still needs."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandlot.run.schedule.shares import Demand, choose_run, targets

DEMANDS = st.lists(
    st.builds(
        Demand,
        weight=st.floats(0.1, 10),
        left=st.integers(0, 500),
        in_flight=st.integers(0, 50),
        ended=st.integers(0, 20),
        seconds=st.floats(0.001, 1000),
    ),
    min_size=1,
    max_size=5,
)


def ended(seconds: float, count: int = 1000, **fields) -> Demand:
    return Demand(ended=count, seconds=seconds * count, **fields)


def test_a_run_with_rollouts_of_ten_times_the_length_gets_ten_times_the_room():
    assert targets([ended(10.0, left=100), ended(1.0, left=100)], 110) == pytest.approx([100, 10], rel=0.02)


def test_a_run_of_twice_the_weight_gets_twice_the_room():
    assert targets([Demand(left=50, weight=2), Demand(left=50)], 30) == pytest.approx([20, 10])


def test_a_run_that_has_only_rollouts_in_flight_left_asks_for_those():
    assert targets([Demand(in_flight=10), Demand(left=10)], 8) == pytest.approx([4, 4])


def test_while_nothing_has_ended_the_number_of_rollouts_decides():
    assert targets([Demand(left=30), Demand(left=10)], 8) == pytest.approx([6, 2])


def test_who_is_furthest_below_its_target_is_next_and_only_who_waits():
    demands = [Demand(left=100, in_flight=5), Demand(left=100, in_flight=1), Demand(left=100)]
    assert choose_run(demands, [0, 1, 2], 30) == 2
    assert choose_run(demands, [0, 1], 30) == 1
    assert choose_run(demands, [0], 30) == 0


@given(DEMANDS, st.integers(1, 100))
def test_targets_fill_the_room_unless_nobody_needs_any(demands, room):
    found = targets(demands, room)
    assert all(target >= 0 for target in found)
    if any(demand.left + demand.in_flight for demand in demands):
        assert sum(found) == pytest.approx(room)
