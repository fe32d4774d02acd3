"""The rule that stops runs: its error rates at any concurrency, and what cannot make it err."""

import heapq
from random import Random

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandlot.core.errors import ConfigError
from sandlot.core.types import Side
from sandlot.run.breaker import EXAMPLES, FEWEST, MESSAGE_CHARS, WINDOW, Breaker, Tripped

CLEAN = {}
ENVIRONMENT_SIDES = [Side.ENVIRONMENT, Side.SANDBOX, Side.GRADER, Side.HARNESS]


def fed(breaker: Breaker, sides, *, start: int = 0, group: int = 1) -> Tripped | None:
    """Rollouts one after another, each failing on a side or on none (None)."""
    for number, side in enumerate(sides, start):
        place = breaker.begin(f"task-{number // group}")
        breaker.end(place, number % group, CLEAN if side is None else {side: f"rollout {number} broke"})
    return breaker.tripped


def simulated(rng: Random, rate: float, *, at_once: int, num_rollouts: int, group: int = 1) -> int | None:
    """Rollouts started when the run is stopped, or None; failures end at once, clean rollouts take 1 to 10 times as long."""
    breaker = Breaker(num_tasks=num_rollouts // group)
    running: list[tuple[float, int, bool]] = []
    for number in range(num_rollouts):
        now = 0.0
        if number >= at_once:
            now, place, failed = heapq.heappop(running)
            if breaker.end(place, 0, {Side.GRADER: ""} if failed else CLEAN):
                return number
        failed = rng.random() < rate
        heapq.heappush(running, (now + (0.01 if failed else rng.uniform(1, 10)), breaker.begin(f"t{number // group}"), failed))
    while running:
        _, place, failed = heapq.heappop(running)
        if breaker.end(place, 0, {Side.GRADER: ""} if failed else CLEAN):
            return num_rollouts
    return None


@pytest.mark.parametrize("at_once", [1, 16, 300, 1000])
def test_a_run_with_one_failure_in_a_hundred_is_stopped_less_than_once_in_a_hundred(at_once):
    """Two runs of 20,000 rollouts and 100 of 500, where most false stops would be."""
    rng = Random(at_once)
    lengths = [20_000] * 2 + [500] * 100
    assert sum(simulated(rng, 0.01, at_once=at_once, num_rollouts=length) is not None for length in lengths) <= 1


@pytest.mark.parametrize("group", [1, 8, 64])
@pytest.mark.parametrize("at_once", [1, 16, 300, 1000])
def test_a_run_with_eight_failures_in_a_hundred_stops_within_the_stated_number(at_once, group):
    rng = Random(at_once)
    stops = [simulated(rng, 0.08, at_once=at_once, num_rollouts=3000, group=group) for _ in range(40)]
    assert None not in stops
    # Rollouts in flight have been started already; those that fail are known first.
    assert sorted(stops)[35] <= 300 + at_once


@given(st.integers(0, 2**32), st.sampled_from([0.03, 0.05, 0.08, 0.5]), st.sampled_from([1, 4, 64]))
def test_whatever_the_order_in_which_rollouts_end_only_a_sequence_that_is_bad_in_itself_stops(seed, rate, group):
    rng = Random(seed)
    failed = [rng.random() < rate for _ in range(600)]
    in_order, shuffled = Breaker(), Breaker()
    fed(in_order, [Side.GRADER if bad else None for bad in failed], group=group)
    places = [shuffled.begin(f"task-{number // group}") for number in range(600)]
    rng.shuffle(places)
    for place in places:
        shuffled.end(place, place % group, {Side.GRADER: ""} if failed[place] else CLEAN)
    assert (shuffled.tripped is None) == (in_order.tripped is None)


@pytest.mark.parametrize("side", ENVIRONMENT_SIDES)
@pytest.mark.parametrize("num_tasks", [1, 2, 3, 1000])
def test_an_environment_that_always_fails_stops_after_eight_rollouts(side, num_tasks):
    breaker = Breaker(num_tasks=num_tasks)
    for number in range(FEWEST):
        assert breaker.tripped is None
        breaker.end(breaker.begin(f"t{number % num_tasks}"), number, {side: "broken"})
    assert (breaker.tripped.side, breaker.tripped.rollouts) == (side, FEWEST)
    assert breaker.tripped.failures == {side.value: FEWEST}


def test_a_run_that_breaks_late_stops_within_21_failures():
    breaker = Breaker()
    fed(breaker, [None] * 20_000)
    assert fed(breaker, [Side.SANDBOX] * 20, start=20_000) is None
    assert fed(breaker, [Side.SANDBOX], start=20_020).rollouts == WINDOW


def test_a_handful_of_failures_in_a_row_stops_nothing():
    assert fed(Breaker(), [*[Side.SANDBOX] * 7, *[None] * 1000]) is None
    assert fed(Breaker(), [*[None] * 100_000, *[Side.SANDBOX] * 20, *[None] * 1000]) is None


@pytest.mark.parametrize(
    ("group", "hostile"), [(8, {10, 11, 12, 13}), (8, {0, 1, 50}), (64, {10, 11}), (64, {0, 50}), (500, {0}), (500, {3, 50, 90})]
)
def test_a_few_hostile_tasks_stop_nothing_however_often_each_is_tried(group, hostile):
    sides = [Side.SANDBOX if number // group in hostile else None for number in range(group * 100)]
    assert fed(Breaker(num_tasks=100), sides, group=group) is None


def test_one_rollout_counts_once_however_often_it_was_tried():
    breaker = Breaker(num_tasks=1)
    place = breaker.begin("t")
    for _ in range(50):
        breaker.end(place, 0, {Side.SANDBOX: "again", Side.GRADER: "again"})
    assert breaker.tripped is None


def test_failures_of_different_sides_of_the_environment_add_up_and_the_most_frequent_is_named():
    tripped = fed(Breaker(), [*[Side.SANDBOX] * 3, *[Side.GRADER] * 5])
    assert tripped.side is Side.GRADER
    assert tripped.failures == {"grader": 5, "sandbox": 3}
    assert [example.side for example in tripped.examples] == [Side.GRADER] * 3


def test_the_model_has_a_limit_of_its_own():
    assert fed(Breaker(), ([Side.MODEL] + [None] * 9) * 40) is None
    tripped = fed(Breaker(), [Side.MODEL, None, None] * 8)
    assert (tripped.side, tripped.failures, tripped.rollouts) == (Side.MODEL, {"model": 8}, 22)
    assert tripped.rate.low < 8 / 22 < tripped.rate.high


def test_failures_of_the_model_do_not_count_against_the_environment():
    assert fed(Breaker(), [*[Side.ENVIRONMENT] * 7, *[Side.MODEL] * 7]) is None


def test_a_shaky_endpoint_can_be_put_up_with():
    assert fed(Breaker(model_failure_share=0.4), [Side.MODEL, None, None] * 200) is None


@pytest.mark.parametrize("share", [0, 1, -0.1, float("nan")])
def test_a_share_that_is_none_is_refused(share):
    with pytest.raises(ConfigError, match="model_failure_share is"):
        Breaker(model_failure_share=share)


def test_it_stays_tripped_for_the_first_reason():
    breaker = Breaker()
    first = fed(breaker, [Side.GRADER] * 8)
    assert fed(breaker, [None] * 500 + [Side.MODEL] * 100, start=8) is first


def test_no_more_examples_than_a_person_reads_and_no_longer():
    breaker = Breaker()
    for number in range(10):
        breaker.end(breaker.begin(f"t{number}"), number, {Side.GRADER: "x" * 10_000})
    assert len(breaker.tripped.examples) == EXAMPLES
    assert {len(example.message) for example in breaker.tripped.examples} == {MESSAGE_CHARS}


def test_the_reason_reads_as_a_sentence_and_can_be_written_down_and_read_again():
    tripped = fed(Breaker(), [*[Side.SANDBOX] * 3, *[Side.GRADER] * 5])
    assert tripped.describe() == (
        "8 of 8 rollouts failed on the grader side (5 grader, 3 sandbox; 68% to 100% at 95 %), such as `task-3/0`: "
        "rollout 3 broke"
    )
    assert msgspec.json.decode(msgspec.json.encode(tripped), type=Tripped) == tripped


@pytest.mark.parametrize(
    ("message", "said"),
    [
        ("\n broke\n\x1b[31mred", "broke \\x1b[31mred"),
        ("", "no message"),
        (f"the key is sk-{'7' * 400}", "the key is ..."),
    ],
)
def test_the_reason_stays_one_line_whatever_an_error_says(message, said):
    breaker = Breaker()
    for number in range(8):
        breaker.end(breaker.begin(f"t{number}"), number, {Side.GRADER: message})
    assert breaker.tripped.describe().endswith(f"such as `t0/0`: {said}")


# -- crashes of rollouts that were graded ----------------------------------------------------------------------------------


def crashed(tasks: list[str], crash: str = "buy: KeyError at tools.py:12 in buy", **fields) -> Breaker:
    """A breaker after one rollout of each of these tasks, each graded after the same crash."""
    breaker = Breaker(**fields)
    for number, task in enumerate(tasks):
        breaker.end(breaker.begin(task), number, {}, {crash: "tool `buy`: KeyError: 'tea'"})
    return breaker


def test_a_crash_in_many_tasks_stops_a_run_with_the_tool_and_its_place():
    tripped = crashed([f"task-{number}" for number in range(8)]).tripped
    assert tripped is not None
    assert (tripped.side, tripped.graded, tripped.failures) == (Side.ENVIRONMENT, 8, {"environment": 8})
    assert tripped.describe().startswith("8 of 8 rollouts failed, or were graded after a crash (8), on the environment side")
    assert "buy: KeyError at tools.py:12 in buy: tool `buy`: KeyError: 'tea'" in tripped.describe()


def test_what_one_task_makes_crash_counts_once_however_often():
    assert crashed(["one"] * 400, num_tasks=1).tripped is None
    assert crashed([f"task-{number % 7}" for number in range(400)], num_tasks=7).tripped is None


def test_what_agents_break_inside_their_own_sandboxes_never_stops_a_run():
    assert crashed([f"task-{number}" for number in range(400)], "raw_work: server, in the sandbox").tripped is None


def test_a_crash_that_no_agent_repeats_is_not_five_per_cent():
    breaker = Breaker()
    for number in range(400):
        crashes = {"buy: KeyError": "x"} if number % 25 == 24 else {}
        breaker.end(breaker.begin(f"task-{number}"), number, {}, crashes)
    assert breaker.tripped is None
