"""Several agents learn together: a group for each seat that learns, none for one that is frozen; a stop changes nothing."""

import json
import os
import signal
from collections.abc import Sequence
from pathlib import Path
from random import Random

import pytest

from builders.tiny_models import write_tiny
from sandlot import Environment, Evidence, Limits, Run, Scored, Task, seat_trace
from sandlot.core.errors import ConfigError
from sandlot.env.module import load_module
from sandlot.observe.events import RunEvent, StepLearned
from sandlot.train.recipe import Evaluation, Recipe
from sandlot.train.report.progress import TrainingProgress
from sandlot.train.rows import group_of, split_by_seat
from sandlot.train.train import train
from sandlot.train.weights import GroupResult, TaskRecord

pytestmark = pytest.mark.timeout(300)

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


duel = Environment("duel", seats=["first", "second"], order="at once", limits=Limits(turns=1, tokens=40))
duel.tasks(tasks)


@duel.check(points=1, seat="first")
def says_more(evidence: Evidence, task: Task) -> float:
    return min(1.0, len(said(evidence, "first")) / 200)


@duel.check(points=1, seat="second")
def is_left_the_rest(evidence: Evidence, task: Task) -> float:
    return 1 - min(1.0, len(said(evidence, "first")) / 200)


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


def test_an_evaluation_is_of_the_seats_that_learn(folder, tmp_path):
    evaluation = Evaluation(every=1, tasks=3, group=2)
    alone = recipe(folder, seats={"second": "scripted:echo"}, steps=2, evaluation=evaluation).but(env=duel)
    progress = train(alone, run=tmp_path / "run")
    means = []
    for line in progress.evaluations:
        run = Run(progress.path / line.run)
        own = run.summary().seats["first"]
        assert run.summary().score.value == pytest.approx(0.5)  # whatever the learner says
        assert (line.mean, line.low, line.high) == pytest.approx((own.value, own.low, own.high))
        assert line.environments["duel"].mean == line.mean
        means.append(line.mean)
    assert len(set(means)) > 1
    assert progress.best.mean == max(means)
    outcome = json.loads((progress.path / "summary.json").read_bytes())
    assert [outcome[each]["mean"] for each in ("heldout_before", "heldout_after")] == pytest.approx([means[0], means[-1]])
    assert outcome["paired"]["difference"]["mean"] == pytest.approx(means[-1] - means[0])
    assert outcome["environments"]["duel"]["paired"] == outcome["paired"]


def test_tasks_are_weighed_by_the_scores_of_the_seats_that_learn(folder, tmp_path):
    seen: list[dict[str, list[GroupResult]]] = []

    def weigh(records: Sequence[TaskRecord]) -> list[float]:
        seen.append({record.task.id: list(record.results) for record in records if record.results})
        return [1.0] * len(records)

    def trained(steps: int) -> Path:
        frozen = {"second": "scripted:echo"}
        return train(recipe(folder, seats=frozen, weigh=weigh, steps=steps).but(env=duel), run=tmp_path / "run").path

    own: dict[str, list[float]] = {}
    for trace in Run(trained(1)):
        own.setdefault(trace.task, []).append(trace.seats["first"].score.value)
    learned = seen[-1]
    assert {task: (each.scored, each.score) for task, (each,) in learned.items()} == {
        task: (4, pytest.approx(sum(own[task]))) for task in learned
    }
    seen.clear()
    trained(2)  # continues, and reads the results of the first step
    assert learned in [{task: results[:1] for task, results in each.items()} for each in seen]


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
