"""How many may be in flight: within its bounds whatever is seen, close to what a plant can take, and steady there."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandlot.run.schedule.admission import FIRST, Admission, Opened, Signals
from sandlot.run.schedule.job import Waits

GIB = 1 << 30
ANYTHING = st.builds(
    Signals,
    running=st.integers(0, 5000),
    waiting=st.booleans(),
    seconds=st.floats(0, 60),
    turns=st.integers(0, 5000),
    refused=st.integers(0, 5000),
    fresh_turns=st.integers(0, 5000),
    fresh_s=st.floats(0, 1e6),
    fresh_tokens=st.integers(0, 10**7),
    queued=st.none() | st.integers(0, 1000),
    cache_used=st.none() | st.floats(0, 1),
    cache_tokens=st.none() | st.integers(0, 10**7),
    cache_forecast=st.integers(0, 10**8),
    cache_each=st.integers(0, 10**6),
    grading=st.integers(0, 100),
    graded=st.integers(0, 100),
    judge_refused=st.integers(0, 100),
    opening=st.integers(0, 5000),
    opened=st.dictionaries(st.sampled_from("ab"), st.builds(Opened, st.integers(0, 5000), st.floats(0, 1e6))),
    sandboxed=st.booleans(),
    cpus=st.integers(1, 256),
    runnable=st.none() | st.floats(0, 1e5),
    lag_s=st.none() | st.floats(0, 100),
    free_bytes=st.none() | st.integers(0, 1 << 42),
    total_bytes=st.integers(0, 1 << 42),
    memory_stall=st.none() | st.floats(0, 1),
)
CALM = Signals(running=0, waiting=True)


@dataclass
class Plant:
    """A model of known capacity and as many rollouts as one likes, each of which takes `pace` turns a look."""

    admission: Admission
    seen: Callable[[int], dict]
    """What is seen with so many running."""
    ending: int = 10**9
    """Rollouts that may end in a look."""
    running: int = 0

    def look(self) -> int:
        limit = self.admission.limit
        self.running = max(limit, self.running - self.ending)  # none is cancelled: they only end
        self.admission.look(replace(CALM, running=self.running, **self.seen(self.running)))
        return self.admission.limit

    def looks(self, count: int) -> list[int]:
        return [self.look() for _ in range(count)]


def refusing(most: int) -> Callable[[int], dict]:
    """A model that answers `most` requests at once, and refuses the others."""

    def seen(running: int) -> dict:
        answered = 4 * min(running, most)
        return {"turns": answered, "refused": 4 * max(0, running - most), "fresh_turns": answered, "fresh_s": float(answered)}

    return seen


def with_knee(most: int, power: float) -> Callable[[int], dict]:
    """A model whose turns take a second up to `most` at once; beyond, throughput is flat (1) or falls (more)."""

    def seen(running: int) -> dict:
        turns = 4 * running
        return {"turns": turns, "fresh_turns": turns, "fresh_s": turns * max(1.0, running / most) ** power}

    return seen


def quiet(running: int) -> dict:
    return refusing(10**9)(running)


def running_of(limits: Iterable[int]) -> tuple[int, int]:
    each = list(limits)
    return min(each), max(each)


@given(st.integers(1, 4096), st.integers(1, 64), st.lists(ANYTHING, max_size=30), st.data())
def test_the_limit_stays_between_floor_and_ceiling_whatever_is_seen(ceiling, floor, signals, data):
    floor = min(floor, ceiling)
    admission = Admission(ceiling, floor)
    for each in signals:
        admission.look(each)
        assert floor <= admission.limit <= ceiling
        assert isinstance(admission.binding, Waits)
        if data.draw(st.booleans()):
            ceiling = data.draw(st.integers(1, 4096))
            admission.resize(ceiling)
            floor = min(floor, ceiling)
    assert admission.limit >= 1, "with none running, one may start"


@given(st.integers(1, 300), st.integers(1, 50))
def test_it_settles_near_what_the_model_can_take_within_300_looks_and_stays_there(most, ending):
    plant = Plant(Admission(4096), refusing(most), ending=ending)
    plant.looks(300)
    low, high = running_of(plant.looks(200))
    assert 0.8 * most - 1 <= low <= high <= 1.3 * most + 2
    assert high - low <= max(2, most // 4), "no wider than a quarter"


@given(st.integers(1, 300))
def test_it_never_refuses_to_grow_where_nothing_is_short(most):
    plant = Plant(Admission(most), quiet)
    plant.looks(40)
    assert (plant.admission.limit, plant.admission.binding) == (most, Waits.LIMIT)


@given(st.integers(4, 200), st.floats(2.0, 3.0))
def test_beyond_a_knee_where_throughput_falls_it_goes_back(most, power):
    plant = Plant(Admission(4096), with_knee(most, power))
    plant.looks(200)
    low, high = running_of(plant.looks(200))
    assert 0.5 * most - 1 <= low <= high <= 2 * most
    assert plant.admission.reason is Waits.THROUGHPUT


@given(st.integers(4, 200))
def test_where_throughput_no_longer_rises_the_limit_stays_within_four_times_the_knee(most):
    plant = Plant(Admission(4096), with_knee(most, 1.0))
    plant.looks(200)
    low, high = running_of(plant.looks(200))
    assert 0.5 * most - 1 <= low <= high <= 4 * most


@given(st.integers(1, 60), st.integers(1, 20))
def test_it_recovers_when_the_pressure_ends(most, ending):
    plant = Plant(Admission(128), refusing(most), ending=ending)
    plant.looks(300)
    plant.seen = quiet
    plant.looks(150)
    assert plant.admission.limit == 128


def test_it_starts_small_and_doubles():
    plant = Plant(Admission(1000), quiet)
    assert [plant.admission.limit, *plant.looks(3)] == [FIRST, 2 * FIRST, 4 * FIRST, 8 * FIRST]
    assert plant.admission.binding is Waits.PACE


def test_it_does_not_grow_before_enough_turns_began_at_this_limit():
    admission = Admission(1000)
    for _ in range(50):
        admission.look(replace(CALM, running=FIRST, turns=100, fresh_turns=0))
    assert admission.limit == FIRST


def test_it_does_not_grow_while_no_rollout_waits():
    plant = Plant(Admission(1000), lambda running: {**quiet(running), "waiting": False})
    assert plant.looks(20)[-1] == FIRST


def test_no_second_cut_comes_before_the_first_has_taken_effect():
    plant = Plant(Admission(64), quiet)
    plant.looks(10)
    plant.seen, plant.ending = refusing(1), 0  # nothing ends
    limits = plant.looks(20)
    assert limits[0] < 64
    assert set(limits) == {limits[0]}


def test_a_few_refusals_keep_the_limit_and_say_why():
    plant = Plant(Admission(1000), quiet)
    plant.looks(3)
    plant.seen = lambda running: {**quiet(running), "refused": 5}
    assert set(plant.looks(20)) == {8 * FIRST}
    assert plant.admission.binding is Waits.MODEL


@pytest.mark.parametrize(
    ("reason", "seen"),
    [
        (Waits.MODEL, {"turns": 50, "refused": 50}),
        (Waits.QUEUE, {"queued": 500}),
        (Waits.CACHE, {"cache_used": 0.99}),
        (Waits.JUDGE, {"graded": 10, "judge_refused": 10}),
        (Waits.CPU, {"sandboxed": True, "runnable": 100.0, "cpus": 2}),
        (Waits.LOOP, {"lag_s": 5.0}),
        (Waits.MEMORY, {"memory_stall": 0.5}),
    ],
)
def test_whatever_is_short_cuts_the_limit_and_is_named(reason, seen):
    plant = Plant(Admission(64), quiet)
    plant.looks(10)
    plant.seen = lambda _running: {"seconds": 10.0, **seen}
    assert plant.looks(1)[0] < 64
    assert plant.admission.binding is reason
    plant.looks(200)
    assert plant.admission.limit >= (4 if reason is Waits.CPU else 1), "processors are never left idle by it"


def test_worlds_that_open_eight_times_slower_than_at_first_cut_the_limit():
    plant = Plant(Admission(64), lambda running: {**quiet(running), "opened": {"r": Opened(8, 8 * 0.2)}})
    plant.looks(10)
    assert plant.admission.limit == 64
    plant.seen = lambda running: {**quiet(running), "opened": {"r": Opened(8, 8 * 2.0)}}
    assert plant.looks(1)[0] < 64
    assert plant.admission.binding is Waits.SANDBOX


LOOK_S = 0.25
"""As often as a run is looked at."""


def often(running: int) -> dict:
    """What is seen in a quarter of a second of a run whose turns are short, on a machine that says how it is."""
    return {**quiet(running), "seconds": LOOK_S, "sandboxed": True, "cpus": 2, "runnable": 1.0, "lag_s": 0.0, "memory_stall": 0.0}


@pytest.mark.parametrize(
    ("reason", "seen"),
    [(Waits.CPU, {"runnable": 5000.0}), (Waits.LOOP, {"lag_s": 30.0}), (Waits.MEMORY, {"memory_stall": 0.9})],
)
def test_what_the_machine_says_is_judged_however_many_turns_are_answered(reason, seen):
    plant = Plant(Admission(512), lambda running: {**often(running), **(seen if running >= 64 else {})})
    limits = plant.looks(800)
    assert plant.admission.reason is reason
    assert max(limits) <= 72, "it is short from 64 on, and is seen to be before it grows on"
    assert min(limits[400:]) >= 32


def test_one_report_of_a_late_loop_cuts_once():
    plant = Plant(Admission(64), often)
    plant.looks(200)
    assert plant.admission.limit == 64
    plant.seen = lambda running: {**often(running), "lag_s": 3.0}  # until the next report, five seconds later
    before = next(number for number in range(40) if plant.look() < 64)
    assert before < 20
    cut = plant.admission.limit
    assert set(plant.looks(20)) == {cut}
    plant.seen = often
    assert min(plant.looks(100)) >= cut


def test_where_the_machine_says_how_it_is_the_limit_grows_when_that_was_seen_at_this_limit():
    plant = Plant(Admission(512), often)
    limits = plant.looks(140)
    assert [limits[20 * number - 2 : 20 * number] for number in range(1, 5)] == [[4, 8], [8, 16], [16, 32], [32, 64]]
    assert plant.admission.limit == 512


def test_a_busy_processor_never_keeps_the_limit_below_two_rollouts_for_each():
    plant = Plant(Admission(512), lambda running: {**often(running), "cpus": 64, "runnable": 64 * 20.0})
    plant.looks(2000)
    assert (plant.admission.limit, plant.admission.binding) == (128, Waits.CPU)


def test_slow_openings_are_seen_a_few_at_a_time_while_turns_are_answered():
    opened_s = [0.2] * 3 + [60.0] * 400
    plant = Plant(Admission(512), lambda running: {**quiet(running), "opened": {"r": Opened(6, 6 * opened_s.pop(0))}})
    plant.looks(400)
    assert plant.admission.limit < FIRST
    assert plant.admission.binding is Waits.SANDBOX


def test_worlds_of_one_run_are_not_compared_with_those_of_another():
    opened = {"fast": Opened(3, 3 * 0.001), "slow": Opened(3, 3 * 2.0)}
    plant = Plant(Admission(512), lambda running: {**quiet(running), "opened": opened})
    plant.looks(100)
    assert plant.admission.limit == 512


def test_slow_openings_that_were_seen_long_ago_keep_nothing():
    seen = {"opened": {"r": Opened(8, 8 * 0.5)}}
    plant = Plant(Admission(512), lambda running: {**quiet(running), **seen})
    plant.look()
    seen["opened"] = {"r": Opened(8, 8 * 2.0)}
    plant.look()
    before = plant.admission.limit
    seen.clear()
    assert plant.looks(25)[-1] == before
    plant.looks(40)
    assert plant.admission.limit == 512


def test_a_queue_that_was_read_at_another_limit_is_read_again_before_it_grows():
    readings = [0, None, None, None, 0]
    plant = Plant(Admission(512), lambda running: {**quiet(running), "queued": readings.pop(0)})
    assert plant.looks(5) == [8, 8, 8, 8, 16]


def test_a_judge_of_many_requests_that_refuses_a_few_is_not_short():
    plant = Plant(Admission(64), lambda running: {**quiet(running), "graded": 5, "judge_refused": 1})  # of fifty requests
    plant.looks(100)
    assert (plant.admission.limit, plant.admission.counts_grading) == (64, False)


def test_a_judge_that_has_not_refused_for_a_minute_is_no_longer_short():
    plant = Plant(Admission(64), quiet)
    plant.looks(10)
    plant.admission.look(replace(CALM, running=64, graded=1, judge_refused=20))
    assert plant.admission.counts_grading
    plant.seen = lambda running: {**quiet(running), "graded": 9}
    plant.looks(59)
    assert plant.admission.counts_grading
    plant.looks(2)
    assert not plant.admission.counts_grading


def test_rollouts_that_are_graded_take_places_but_no_memory_and_with_none_in_flight_one_starts():
    admission = Admission(64)
    admission._size = 64
    admission.counts_grading = True
    admission.look(replace(CALM, running=0, free_bytes=40 << 20))  # for ten
    assert (admission.limit, admission.binding) == (10, Waits.MEMORY)
    assert admission.admits(running=9, grading=54)
    assert not admission.admits(running=9, grading=55)
    assert not admission.admits(running=10, grading=0)
    assert admission.admits(running=0, grading=1000)


def test_when_the_judge_refuses_rollouts_that_are_graded_take_places():
    plant = Plant(Admission(64), quiet)
    plant.looks(10)
    plant.admission.look(replace(CALM, running=64, grading=40, graded=5, judge_refused=20))
    assert plant.admission.counts_grading
    cut = plant.admission.limit
    assert cut == 44
    for _ in range(20):  # most of them are being graded: that the judge still refuses is no news
        plant.admission.look(replace(CALM, running=10, grading=60, graded=5, judge_refused=20))
    assert plant.admission.limit == cut


# -- caps --------------------------------------------------------------------------------------------------------------


def counted_one_by_one(free: float, each: float) -> int:
    """The slow twin of the caps: take the part of one after the other, as long as there is room."""
    count = 0
    while free >= each:
        free -= each
        count += 1
    return count


@given(st.integers(4, 60), st.integers(4, 64), st.integers(0, 256), st.integers(0, 60))
def test_memory_allows_as_many_as_fit_one_by_one_when_all_have_grown(running, mib_each, free_mib, opening):
    opening = min(opening, running - 4)
    used = (running - opening) * mib_each  # those that open have taken nothing yet
    admission = Admission(10_000)
    admission._size = 10_000
    admission.look(replace(CALM, running=0, free_bytes=(free_mib + used) << 20))
    admission.look(replace(CALM, running=running, opening=opening, free_bytes=free_mib << 20))
    assert admission.limit == max(1, counted_one_by_one(free_mib + used, mib_each))
    assert admission.binding is Waits.MEMORY


def test_memory_that_others_take_is_not_there_for_rollouts():
    admission = Admission(10_000)
    admission._size = 10_000
    admission.look(replace(CALM, running=0, free_bytes=GIB))
    admission.look(replace(CALM, running=4, free_bytes=GIB - (4 * 64 << 20)))
    assert admission.limit == 16
    admission.look(replace(CALM, running=4, opening=1, free_bytes=128 << 20))
    assert admission.limit == 5, "one has still to take its part"


@given(st.integers(0, 50), st.integers(1, 5000), st.integers(0, 200_000))
def test_the_cache_allows_as_many_more_as_fit_one_by_one(running, each, budget):
    forecast = running * each
    admission = Admission(10**6)
    admission._size = 10**6
    admission.look(replace(CALM, running=running, cache_tokens=budget, cache_forecast=forecast, cache_each=each))
    room = 0.9 * budget - forecast
    if room >= 0:
        assert admission.limit == max(1, running + counted_one_by_one(room, each))
    else:
        assert admission.limit <= max(1, running), "the contexts that run already fill it"


def test_a_forecast_does_not_bind_while_little_of_the_cache_is_in_use():
    admission = Admission(512)
    admission._size = 512
    seen = replace(CALM, running=20, cache_tokens=100_000, cache_forecast=20 * 9000, cache_each=9000)  # most of it is shared
    admission.look(replace(seen, cache_used=0.05))
    admission.look(seen)
    assert admission.limit == 512
    admission.look(replace(seen, cache_used=0.6))
    assert admission.limit < 20
    assert admission.binding is Waits.CACHE


def test_memory_that_runs_out_stops_starts_at_once_and_gives_way_when_it_is_back():
    admission = Admission(1000)
    plenty = {"free_bytes": 20 * GIB, "total_bytes": 24 * GIB}
    plant = Plant(admission, lambda running: {**quiet(running), **plenty})
    plant.looks(5)
    before = admission.limit
    plant.seen = lambda running: {**quiet(running), "free_bytes": GIB, "total_bytes": 24 * GIB}
    plant.look()
    assert admission.limit < before
    assert admission.binding is Waits.MEMORY
    plant.seen = lambda running: {**quiet(running), **plenty}
    plant.looks(600)  # what others took was thought to be ours; that is forgotten slowly
    assert admission.limit == 1000


def test_bounds_that_cannot_hold_are_refused():
    with pytest.raises(ValueError, match="floor=5, ceiling=4"):
        Admission(4, 5)
