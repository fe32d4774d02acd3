from random import Random

import msgspec
import pytest

import sandlot
from builders import rows
from sandlot.core.limits import Limits
from sandlot.env.module import forget_modules
from sandlot.run.config import RunConfig, Selection
from sandlot.run.forecast import Forecast, forecast, forecast_run
from sandlot.wiring.config import ModelConfig


def pilot_of(rng: Random, tasks: int, rollouts: int, offset: int = 0):
    """Tasks differ in length, and so do their rollouts."""
    result = []
    for task in range(tasks):
        length = rng.uniform(100, 1000)
        for number in range(rollouts):
            tokens = int(length * rng.uniform(0.5, 1.5))
            result.append(rows.scored(f"t{offset + task}", number, completion_tokens=tokens, seconds=tokens / 100))
    return result


def test_without_a_pilot_the_numbers_are_unknown_and_only_the_limit_speaks():
    told = forecast(100, at_once=10, limits=Limits(turns=20), sandboxed=True)
    assert all(number.likely is None for number in told.ranges.values())
    assert (told.turns.low, told.turns.high) == (None, 2000)
    assert told.usd.high is told.wall_s.high is None
    assert "no pilot" in told.notes[0]


def test_a_limit_that_was_not_given_is_not_made_up():
    assert forecast(100, at_once=10).turns.high is None


def test_a_pilot_is_scaled_up():
    told = forecast(1000, [rows.scored(f"t{i}", 0) for i in range(10)], at_once=50, sandboxed=True)
    assert (told.prompt_tokens.likely, told.completion_tokens.likely, told.turns.likely) == (100_000, 10_000, 2000)
    assert told.usd.likely == pytest.approx(10)
    assert told.wall_s.likely == pytest.approx(60)
    assert told.sandbox_hours.likely == pytest.approx(3000 / 3600)
    assert all(number.likely is not None for number in told.ranges.values())


def test_the_range_holds_what_a_run_then_takes():
    rng = Random(6)
    held = 0
    for _ in range(200):
        told = forecast(160, pilot_of(rng, 10, 3), at_once=8).completion_tokens
        took = sum(row.completion_tokens for row in pilot_of(rng, 40, 4))
        held += told.low <= took <= told.high
    assert 170 <= held <= 199


def test_the_range_of_a_single_rollout_holds_that_rollout():
    rng = Random(7)
    held = 0
    for _ in range(200):
        told = forecast(1, pilot_of(rng, 10, 3), at_once=1).completion_tokens
        held += told.low <= pilot_of(rng, 1, 1)[0].completion_tokens <= told.high
    assert held >= 180


def test_one_task_gives_a_likely_number_and_no_range():
    told = forecast(10, [rows.scored("only", i, usd=0.1 * i) for i in range(5)], at_once=1)
    assert told.usd.likely == pytest.approx(2.0)
    assert told.usd.low is told.usd.high is None
    assert "one task" in told.notes[0]


def test_fewer_rollouts_than_places_do_not_go_faster_than_one_each():
    told = forecast(4, [rows.scored("a"), rows.scored("b")], at_once=1000)
    assert told.wall_s.likely == pytest.approx(3.0)


def test_turns_never_exceed_the_limit():
    wild = [rows.scored("a", turns=1), rows.scored("b", turns=16)]
    assert forecast(10, wild, at_once=1, limits=Limits(turns=16)).turns.high == 160


def test_cancelled_rollouts_say_nothing_and_failed_ones_are_mentioned():
    told = forecast(10, [rows.cancelled("a"), rows.failed("b"), rows.scored("c")], at_once=1)
    assert told.pilot == 2
    assert any("1 of the pilot's 2 rollouts failed" in note for note in told.notes)


def test_a_free_pilot_says_that_no_price_is_known():
    told = forecast(10, [rows.scored(f"t{i}", usd=0.0) for i in range(6)], at_once=1)
    assert told.usd.likely == 0
    assert "no price is known" in told.notes[0]


def test_without_a_sandbox_there_are_no_sandbox_hours():
    assert forecast(10, at_once=1).sandbox_hours.likely == 0


def test_nothing_to_do_takes_nothing():
    told = forecast(0, [rows.scored("a"), rows.scored("b")], at_once=4)
    assert (told.usd.likely, told.usd.high, told.turns.high) == (0, 0, 0)


@pytest.mark.parametrize(("rollouts", "at_once"), [(-1, 1), (1, 0)])
def test_an_impossible_plan_is_refused(rollouts, at_once):
    with pytest.raises(ValueError, match="give 0 or more"):
        forecast(rollouts, at_once=at_once)


def test_a_forecast_can_be_written_down_and_read_again():
    told = forecast(9, [rows.scored("a"), rows.scored("b")], at_once=2)
    assert msgspec.json.decode(msgspec.json.encode(told), type=Forecast) == told


def test_a_forecast_reads_as_lines_and_says_what_is_unknown():
    assert forecast(100, at_once=10, limits=Limits(turns=20)).describe().splitlines() == [
        "100 rollouts, 10 at once, without a pilot",
        "  turns              unknown  (at most 2,000)",
        "  prompt tokens      unknown",
        "  completion tokens  unknown",
        "  usd                unknown",
        "  wall s             unknown",
        "  sandbox hours      0",
        "  no pilot: run a few rollouts of each of several tasks first, and forecast from them",
    ]
    told = forecast(1000, [rows.scored("a", usd=0.01), rows.scored("b", usd=0.02)], at_once=10).describe()
    assert "prompt tokens      100,000\n" in told
    assert "usd                15  (0 to " in told


SOURCE = """
from sandlot import Ask, Score, environment

@environment("add", tasks=6)
def add(rng):
    answer = yield Ask("What is 1 + 1?", golden="2")
    yield Score(answer == "2")
"""


def test_a_planned_run_is_forecast_from_the_newest_run_of_the_same_environment_and_model(tmp_path):
    file, runs = tmp_path / "add.py", tmp_path / "runs"
    file.write_text(SOURCE)
    config = RunConfig(env=str(file), model=ModelConfig(spec="scripted:golden"), select=Selection(group=3), at_once=2)
    plan, told = forecast_run(config, runs)
    assert (plan.num_rollouts, told.rollouts, told.pilot, told.at_once) == (18, 18, 0, 2)
    assert not runs.exists()
    sandlot.run(file, "scripted:golden", rollouts=5, runs=runs)
    assert forecast_run(config, runs)[1].pilot == 5
    plan, told = forecast_run(config, runs, rollouts=100)
    assert (plan.num_rollouts, told.rollouts, told.turns.likely) == (18, 100, 100)
    other = msgspec.structs.replace(config, model=ModelConfig(spec="scripted:noop"))
    assert forecast_run(other, runs)[1].pilot == 0
    file.write_text(SOURCE.replace("1 + 1", "2 + 0"))
    forget_modules(tmp_path)
    assert forecast_run(config, runs)[1].pilot == 0
