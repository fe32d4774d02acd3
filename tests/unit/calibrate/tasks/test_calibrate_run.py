"""Calibrations as runs: taken in waves, stopped and continued, asked another band, bound to what they were measured with."""

import signal
from collections import Counter
from itertools import pairwise
from pathlib import Path

import anyio
import msgspec
import pytest

import sandlot
from sandlot.calibrate.tasks.calibrate import (
    CalibrationConfig,
    _Steering,
    calibrate,
    calibrate_config,
    expected_rollouts,
    forecast_calibration,
    opening_plan,
)
from sandlot.calibrate.tasks.calibration import Calibration
from sandlot.calibrate.tasks.placement import TaskLabel
from sandlot.calibrate.tasks.rule import Region, Rule
from sandlot.calibrate.tasks.state import CalibrationState, by_tags
from sandlot.core.errors import ConfigError, HarnessError
from sandlot.core.types import Split
from sandlot.env.load import load
from sandlot.observe.event_log import EventReader
from sandlot.observe.events import CalibrationWave, RolloutEnded, ignore_event
from sandlot.run.config import RunConfig, Selection
from sandlot.run.curriculum import read_curriculum
from sandlot.run.results import Run
from sandlot.wiring.config import ModelConfig

SOURCE = """
from random import Random
from sandlot import Ask, Score, environment

@environment("add", tasks=20)
def add(rng: Random):
    a, b = rng.randrange(100), rng.randrange(100)
    answer = yield Ask(f"What is {a}+{b}?", golden=str(a + b))
    yield Score(answer == str(a + b))
"""
GRADED = """
from sandlot import Environment, Task

env = Environment("graded")

@env.tasks
def tasks(rng):
    for number in range(24):
        yield Task(f"t-{number:02}", prompt="Say it.", split="train", tags=("odd" if number % 2 else "even",))

@env.check(points=9)
def something(evidence, task):
    return 0.5 if "Say" in evidence.answer else 0.0

@env.check(points=1)
def unlucky(evidence, task):
    if task.id == "t-23":
        raise RuntimeError("this task cannot be graded")
    return True

@env.solution
async def solve(agent, task):
    await agent.say("Say")
"""


@pytest.fixture
def add(tmp_path) -> Path:
    path = tmp_path / "add.py"
    path.write_text(SOURCE)
    return path


def config(env: Path, model: str = "scripted:mixed:0.35", *, split: Split | None = None, **fields) -> CalibrationConfig:
    run = RunConfig(env=str(env), model=ModelConfig(spec=model), select=Selection(split=split))
    return CalibrationConfig(run=run, **{"rule": Rule(cap=12)} | fields)


def only_run(runs: Path) -> Run:
    (manifest,) = runs.glob("*/manifest.json")
    return Run(manifest.parent)


def require_whole(found: Calibration, run: Run) -> None:
    """Every rollout once, and the numbers of every task are those of its rollouts."""
    rows = list(run.rows)
    assert max(Counter((row.task, row.rollout) for row in rows).values()) == 1
    for each in found.placements:
        mine = [row for row in rows if row.task == each.task]
        assert (each.scored, each.failed) == (sum(r.score is not None for r in mine), sum(r.score is None for r in mine))
        assert each.passed == sum(row.score is not None and row.score >= found.rule.threshold for row in mine)
        assert each.below + each.inside + each.above == pytest.approx(1)
    assert found.spent.rollouts == len(rows)


def test_every_training_task_is_placed_or_borderline_at_the_cap(add, tmp_path):
    found = calibrate(config=config(add), runs=tmp_path / "runs")
    run = only_run(tmp_path / "runs")
    require_whole(found, run)
    assert found.verdict == "complete"
    assert {row.split for row in run.rows} == {"train"}
    for each in found.placements:
        sure = max(each.below, each.inside, each.above) >= found.rule.confidence
        assert sure == (each.label is not TaskLabel.BORDERLINE)
        assert sure or each.scored == found.rule.cap
    assert msgspec.json.decode((run.path / "calibration.json").read_bytes(), type=Calibration) == found


@pytest.mark.parametrize(("model", "label"), [("scripted:golden", TaskLabel.TOO_EASY), ("scripted:noop", TaskLabel.TOO_HARD)])
def test_clear_tasks_cost_few_rollouts(add, tmp_path, model, label):
    found = calibrate(config=config(add, model), runs=tmp_path / "runs")
    assert {each.label for each in found.placements} == {label}
    assert found.spent.rollouts <= 9 * len(found.placements)
    assert found.curriculum.tasks == ()


def test_a_forecast_names_the_rollouts_it_may_take_and_takes_none(add, tmp_path):
    told = forecast_calibration(config(add, split=Split.TRAIN), tmp_path / "runs")
    assert told.tasks == len(opening_plan(config(add, split=Split.TRAIN), load(add)).tasks)
    assert told.tasks <= told.rollouts["fewest"] <= told.rollouts["likely"] == told.forecast.rollouts <= told.rollouts["most"]
    assert told.forecast.pilot == 0
    assert not (tmp_path / "runs").exists()
    found = calibrate(config=config(add, split=Split.TRAIN), runs=tmp_path / "runs")
    assert told.rollouts["fewest"] <= found.spent.rollouts <= told.rollouts["most"]
    again = forecast_calibration(config(add, split=Split.TRAIN), tmp_path / "runs")
    assert (again.rollouts, again.forecast.pilot) == (told.rollouts, found.spent.rollouts)


def stop_after(count: int):
    """A sink that interrupts the calibration after some rollouts."""
    left = [count]

    def sink(event):
        left[0] -= isinstance(event, RolloutEnded)
        if left[0] == 0 and isinstance(event, RolloutEnded):
            signal.raise_signal(signal.SIGINT)

    return sink


def test_every_wave_is_an_event_and_is_logged(add, tmp_path):
    got = []
    found = calibrate(config=config(add), runs=tmp_path / "runs", sink=got.append)
    waves = [event for event in got if isinstance(event, CalibrationWave)]
    assert len(waves) > 1
    assert waves[0].num_taken == sum(isinstance(event, RolloutEnded) for event in got[: got.index(waves[0])])
    for before, after in pairwise(waves):
        assert after.num_taken == before.num_taken + before.num_more
    assert (waves[-1].num_more, waves[-1].num_taken) == (0, found.spent.rollouts)
    assert list(EventReader(only_run(tmp_path / "runs").path)) == got


def test_a_wave_that_was_not_counted_stops_the_calibration(add):
    environment = load(add)
    plan = opening_plan(config(add), environment)
    steering = _Steering(CalibrationState(Rule(), plan.tasks, by_tags(), budget=None, at_once=1))
    assert steering.plan_more(ignore_event) is not None
    with pytest.raises(HarnessError, match="no rollout of the last wave was counted"):
        steering.plan_more(ignore_event)


@pytest.mark.parametrize("after", [3, 90])
def test_the_same_command_continues(add, tmp_path, after):
    stopped = calibrate(config=config(add), runs=tmp_path / "runs", sink=stop_after(after))
    assert (stopped.verdict, "SIGINT" in (stopped.stopped or "")) == ("incomplete", True)
    before = {(row.task, row.rollout) for row in only_run(tmp_path / "runs").rows}
    found = calibrate(config=config(add), runs=tmp_path / "runs")
    run = only_run(tmp_path / "runs")
    require_whole(found, run)
    assert found.verdict == "complete"
    assert before <= {(row.task, row.rollout) for row in run.rows}


def test_another_band_goes_on_with_the_rollouts_that_are_there(add, tmp_path):
    first = calibrate(config=config(add), runs=tmp_path / "runs")
    second = calibrate(config=config(add, rule=Rule(low=0.6, high=0.9, cap=12)), runs=tmp_path / "runs")
    require_whole(second, only_run(tmp_path / "runs"))
    assert second.spent.rollouts >= first.spent.rollouts
    assert {each.label for each in second.placements} <= {TaskLabel.TOO_HARD, TaskLabel.BORDERLINE}


def test_a_budget_is_kept_and_shared_out(add, tmp_path):
    found = calibrate(config=config(add, budget=100), runs=tmp_path / "runs")
    assert found.spent.rollouts == 100
    assert min(each.scored for each in found.placements) >= found.rule.start
    assert found.verdict == "complete"


@pytest.mark.parametrize(
    ("fields", "complaint"),
    [({"budget": 7}, "budget is 7"), ({"group": 1}, "group is 1")],
)
def test_what_cannot_be_is_refused_before_the_first_rollout(add, tmp_path, fields, complaint):
    with pytest.raises(ConfigError, match=complaint):
        calibrate(config=config(add, **fields), runs=tmp_path / "runs")
    assert not (tmp_path / "runs").exists()


def test_held_out_tasks_are_calibrated_only_if_asked_for(add, tmp_path):
    found = calibrate(config=config(add, "scripted:golden", split=Split.HELDOUT), runs=tmp_path)
    assert {row.split for row in only_run(tmp_path).rows} == {"heldout"}
    assert len(found.placements) < 20


async def test_what_cannot_be_scored_is_no_part_of_the_rate_and_is_shown(tmp_path):
    path = tmp_path / "graded.py"
    path.write_text(GRADED)
    found = await calibrate_config(config(path, "scripted:noop"), runs=tmp_path / "runs")
    last = found.placements[-1]
    assert (last.label, last.scored, last.failed) == (TaskLabel.UNSCORABLE, 0, 4)
    assert found.spent.failed == 4
    assert set(found.families) == {"even", "odd"}
    assert sum(found.histogram) == 23


async def test_a_threshold_makes_partial_credit_a_pass_and_alike_rewards_are_flat(tmp_path):
    path = tmp_path / "graded.py"
    path.write_text(GRADED.replace('"t-23"', '"none"').replace("return 0.5 if", "return 0.02 if"))
    # 0.118 of 1 when it is said, 0.1 when it is not: a threshold between them splits what hardly differs
    rule = Rule(low=0.3, high=0.95, threshold=0.11, cap=16)
    found = await calibrate_config(config(path, "scripted:mixed:0.3", rule=rule), runs=tmp_path / "runs")
    assert {each.label for each in found.placements} <= {TaskLabel.FLAT, TaskLabel.BORDERLINE}
    assert len(found.labelled(TaskLabel.FLAT)) > 6
    assert found.spent.failed == 0


async def test_a_bad_run_is_stopped_and_the_next_command_starts_anew(add, tmp_path):
    found = await calibrate_config(config(add, "scripted:crash"), runs=tmp_path)
    assert found.verdict == "stopped"
    assert {each.label for each in found.placements} <= {TaskLabel.UNSCORABLE, TaskLabel.BORDERLINE}
    again = await calibrate_config(config(add, "scripted:crash"), runs=tmp_path)
    assert again.run != found.run


def test_a_curriculum_holds_for_this_environment_only(add, tmp_path):
    found = calibrate(config=config(add), runs=tmp_path / "runs")
    path = only_run(tmp_path / "runs").path / "curriculum.json"
    tasks = read_curriculum(path, sandlot.load(add))
    placed = {each.task: each for each in found.placements}
    assert tasks
    assert all(placed[task].likeliest is Region.INSIDE for task in tasks)
    assert {each.task for each in found.labelled(TaskLabel.IN_BAND)} <= set(tasks)
    add.write_text(SOURCE + "\n# changed\n")
    with pytest.raises(ConfigError, match="another fingerprint"):
        read_curriculum(path, sandlot.load(add))
    add.write_text(SOURCE.replace('"add"', '"other"'))
    with pytest.raises(ConfigError, match=r"was made for environment `.*`, not for `other`"):
        read_curriculum(path, sandlot.load(add))


@pytest.mark.parametrize(
    ("text", "complaint"), [(None, "no curriculum"), ("{}", "not a curriculum"), ("[1", "not a curriculum"), ("\xff", "not a")]
)
def test_what_is_no_curriculum_is_refused(add, tmp_path, text, complaint):
    path = tmp_path / "curriculum.json"
    if text is not None:
        path.write_text(text, encoding="latin-1")
    with pytest.raises(ConfigError, match=complaint):
        read_curriculum(path, sandlot.load(add))


def test_an_empty_curriculum_is_refused_with_its_band(add, tmp_path):
    calibrate(config=config(add, "scripted:noop"), runs=tmp_path / "runs")
    with pytest.raises(ConfigError, match=r"none was found in the band 0\.2 to 0\.5"):
        read_curriculum(only_run(tmp_path / "runs").path / "curriculum.json", sandlot.load(add))


def test_the_forecast_knows_its_bounds(add):
    fewest, likely, most = expected_rollouts(config(add), 20)
    assert (fewest, most) == (80, 240)
    assert fewest < likely < most
    assert expected_rollouts(config(add, budget=100), 20)[2] == 100


def test_it_may_run_in_a_loop_that_is_there(add, tmp_path):
    async def go() -> Calibration:
        return await calibrate_config(config(add, "scripted:golden"), place=tmp_path / "here")

    assert anyio.run(go).run == "here"


def test_the_keywords_of_the_front_door_make_the_same_calibration(add, tmp_path):
    keywords = sandlot.calibrate(add, "scripted:mixed:0.35", band=(0.3, 0.6), budget=70, runs=tmp_path / "one")
    rule = Rule(low=0.3, high=0.6)
    whole = sandlot.calibrate(config=config(add, rule=rule, budget=70), runs=tmp_path / "two")
    assert (keywords.rule, keywords.budget) == (rule, 70)
    assert [each.task for each in keywords.placements] == [each.task for each in whole.placements]
    assert {row.split for row in only_run(tmp_path / "one").rows} == {"train"}


def test_without_a_model_there_is_nothing_to_calibrate(add):
    with pytest.raises(ConfigError, match="give an environment and a model"):
        sandlot.calibrate(add)
