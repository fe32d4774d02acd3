from random import Random

import msgspec
import pytest

import rows
from sandlot.errors import ConfigError
from sandlot.run.breaker import EXAMPLES, MESSAGE_CHARS, Breaker, Tripped
from sandlot.types import Side


def fed(breaker: Breaker, sides) -> Tripped | None:
    for number, side in enumerate(sides):
        breaker.note(side, f"task-{number}", number, f"attempt {number} broke")
    return breaker.tripped


@pytest.mark.parametrize("side", [Side.ENVIRONMENT, Side.SANDBOX, Side.GRADER, Side.HARNESS])
def test_three_failures_at_once_on_any_side_of_the_environment_stop_the_run(side):
    breaker = Breaker()
    assert fed(breaker, [side, side]) is None
    tripped = breaker.note(side, "third", 2, "again")
    assert tripped.side is side
    assert tripped.failures == {side.value: 3}
    assert [example.task for example in tripped.examples] == ["task-0", "task-1", "third"]


def test_failures_of_different_sides_of_the_environment_add_up_and_the_most_frequent_is_named():
    tripped = fed(Breaker(), [Side.SANDBOX, Side.GRADER, Side.GRADER])
    assert tripped.side is Side.GRADER
    assert tripped.failures == {"grader": 2, "sandbox": 1}
    assert [example.side for example in tripped.examples] == [Side.GRADER, Side.GRADER, Side.SANDBOX]


def test_the_model_has_a_limit_of_its_own():
    assert fed(Breaker(), ([Side.MODEL] + [None] * 15) * 20) is None
    tripped = fed(Breaker(), [Side.MODEL, None, None] * 3)
    assert (tripped.side, tripped.failures, tripped.attempts) == (Side.MODEL, {"model": 3}, 7)
    assert tripped.rate.low < 3 / 7 < tripped.rate.high


def test_a_shaky_endpoint_can_be_put_up_with():
    assert fed(Breaker(model_failure_share=0.4), [Side.MODEL, None, None] * 200) is None


@pytest.mark.parametrize("share", [0, 1, -0.1, float("nan")])
def test_a_share_that_is_none_is_refused(share):
    with pytest.raises(ConfigError, match="model_failure_share is"):
        Breaker(model_failure_share=share)


def test_failures_of_the_model_do_not_count_against_the_environment():
    assert fed(Breaker(), [Side.ENVIRONMENT, Side.MODEL, Side.ENVIRONMENT, Side.MODEL, None]) is None


@pytest.mark.parametrize(("share", "stops"), [(0.0, False), (0.005, False), (0.10, True), (0.5, True)])
def test_good_runs_go_on_and_bad_ones_stop(share, stops):
    rng = Random(1)
    sides = (Side.GRADER if rng.random() < share else None for _ in range(2_000))
    assert (fed(Breaker(), sides) is not None) == stops


def test_a_run_that_breaks_late_is_noticed_soon():
    breaker = Breaker()
    fed(breaker, [None] * 20_000)
    assert fed(breaker, [Side.SANDBOX] * 7) is not None


def test_it_stays_tripped_for_the_first_reason():
    breaker = Breaker()
    first = fed(breaker, [Side.GRADER] * 3)
    assert fed(breaker, [None] * 500 + [Side.MODEL] * 50) is first


def test_no_more_examples_than_a_person_reads_and_no_longer():
    breaker = Breaker()
    for number in range(10):
        breaker.note(Side.GRADER, "t", number, "x" * 10_000)
    assert len(breaker.tripped.examples) == EXAMPLES
    assert {len(example.message) for example in breaker.tripped.examples} == {MESSAGE_CHARS}


def test_the_reason_reads_as_a_sentence():
    assert fed(Breaker(), [Side.SANDBOX, Side.GRADER, Side.GRADER]).describe() == (
        "3 of 3 attempts failed on the grader side (2 grader, 1 sandbox; 44% to 100% at 95 %)"
    )


def test_a_resumed_run_remembers_what_was_stored_and_leaves_out_what_was_cancelled():
    breaker = Breaker()
    breaker.resume([rows.failed(side="grader"), rows.cancelled(), rows.failed(side="grader", rollout=1)])
    assert breaker.tripped is None
    assert breaker.note(Side.GRADER, "t", 2).attempts == 3


def test_the_reason_can_be_written_down_and_read_again():
    tripped = fed(Breaker(), [Side.GRADER] * 3)
    assert msgspec.json.decode(msgspec.json.encode(tripped), type=Tripped) == tripped
