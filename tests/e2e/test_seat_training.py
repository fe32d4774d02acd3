"""Several agents learn together: a group for each seat that learns, none for one that is frozen; a stop changes nothing."""

import os
import signal
from pathlib import Path
from random import Random

import pytest

from sandlot import Environment, Evidence, Limits, Run, Scored, Task, seat_trace
from sandlot.core.errors import ConfigError
from sandlot.env.module import load_module
from sandlot.observe.events import RunEvent, StepLearned
from sandlot.train.recipe import Recipe
from sandlot.train.report.progress import TrainingProgress
from sandlot.train.rows import group_of, split_by_seat
from sandlot.train.train import train
from tiny_models import write_tiny

pytestmark = pytest.mark.timeout(180)

letters = load_module(Path(__file__).parent.parent / "worlds" / "letters.py")
pair = Environment("pair", seats=["first", "second"], order="at once", limits=Limits(turns=1, tokens=40))


@pair.tasks
def tasks(rng: Random):
    for number in range(12):
        yield Task(
            f"say-{number}", prompt=f"Say something about {rng.randrange(100)}.", split="heldout" if number < 3 else "train"
        )


@pair.check(points=1, seat="first")
def is_long(evidence: Evidence, task: Task) -> float:
    return min(1.0, len(said(evidence, "first")) / 200)


@pair.check(points=1, seat="second")
def is_short(evidence: Evidence, task: Task) -> float:
    return 1 - min(1.0, len(said(evidence, "second")) / 200)


def said(evidence: Evidence, seat: str) -> str:
    return next((node.message.text for node in evidence.trace.turns() if node.message.agent == seat), "")


def recipe(folder: Path, **changed) -> Recipe:
    return letters.recipe(folder, env=pair, tasks=2, resample=1, **changed)


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    return write_tiny(tmp_path_factory.mktemp("models") / "tiny")


@pytest.fixture(scope="module")
def whole(folder, tmp_path_factory) -> TrainingProgress:
    return train(recipe(folder), run=tmp_path_factory.mktemp("whole") / "run")


def numbers(progress: TrainingProgress) -> list[tuple]:
    return [(step.version, step.loss, step.reward, step.tokens, step.rollouts) for step in progress.steps]


def test_every_seat_has_a_group_of_its_own_and_a_rollout_counts_once(whole, folder):
    for step in whole.steps:
        assert (step.groups, step.rollouts) == (2 * 2, 2 * recipe(folder).group)
        assert step.tokens > 0
    assert len(Run(whole.path)) == sum(step.rollouts for step in whole.steps)


def test_a_seat_is_compared_by_its_own_score_with_the_same_seat(whole):
    traces = [trace for trace in Run(whole.path) if isinstance(trace.outcome, Scored)][:4]
    for seat, own in zip(("first", "second"), split_by_seat(traces, ("first", "second")), strict=True):
        group = group_of("say", own)
        assert group.rewards.tolist() == pytest.approx([trace.seats[seat].score.value for trace in traces])
        sampled = [sum(len(node.tokens) for node in seat_trace(trace, seat).turns()) for trace in traces]
        assert [sum(int(row.trained.sum()) for row in member.rows) for member in group.members] == sampled


def test_a_frozen_seat_does_not_learn(folder, tmp_path):
    progress = train(recipe(folder, seats={"second": "scripted:echo"}, steps=1), run=tmp_path / "run")
    assert [(step.groups, step.rollouts) for step in progress.steps] == [(2, 2 * recipe(folder).group)]
    models = {node.message.agent: node.model for trace in Run(progress.path) for node in trace.turns()}
    assert models["second"] == "scripted:echo" != models["first"]
    evaluated = Run(progress.path / "evaluations" / "000001")
    assert all(seat_trace(trace, "second").nodes[-1].model == "scripted:echo" for trace in evaluated)


def test_a_training_in_which_nobody_learns_is_refused(folder, tmp_path):
    frozen = {"first": "scripted:noop", "second": "scripted:noop"}
    with pytest.raises(ConfigError, match="no seat of `pair` learns"):
        train(recipe(folder, seats=frozen), run=tmp_path / "run")
    with pytest.raises(ConfigError, match="has no seat `third`"):
        train(recipe(folder, seats={"third": "scripted:noop"}), run=tmp_path / "run")


def test_stopped_in_order_and_continued_it_learns_the_same(folder, whole, tmp_path):
    def stop(event: RunEvent) -> None:
        if isinstance(event, StepLearned) and event.step.version == 2:
            os.kill(os.getpid(), signal.SIGINT)

    assert train(recipe(folder), run=tmp_path / "run", sink=stop).stopped
    assert numbers(train(recipe(folder), run=tmp_path / "run")) == numbers(whole)
