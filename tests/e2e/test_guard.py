"""Whole trainings that are made to collapse: seen, stopped, taken back or slowed down; and a sound one that is left alone."""

from pathlib import Path

import msgspec
import pytest

from builders.tiny_models import write_tiny
from drive.command_line import ENVIRONMENTS
from sandlot.cli.views.train import TrainingResult
from sandlot.core.ports.model import Sampling
from sandlot.core.trace import Trace
from sandlot.env.module import load_module
from sandlot.observe.events import AlarmRaised, RolledBack, RunEvent
from sandlot.observe.training_records import Collapse
from sandlot.train.algorithms.algorithms import PolicyGradient
from sandlot.train.guard import CollapseGuard
from sandlot.train.recipe import Evaluation, Recipe
from sandlot.train.report.progress import TrainingProgress, read_lines
from sandlot.train.report.summary import Outcome
from sandlot.train.train import train
from sandlot.train.trainer import Optimisation

pytestmark = pytest.mark.timeout(300)
ABSURD = 1e-2
letters = load_module(Path(__file__).parent.parent / "worlds" / "letters.py")


def sums(rate: float, **changed) -> Recipe:
    """`rookie` adds numbers, in small steps; a sound rate is 5e-4."""
    plain = Recipe(
        name="sums",
        env=ENVIRONMENTS / "arithmetic",
        model="rookie",
        steps=8,
        tasks=16,
        group=4,
        resample=1,
        algorithm=PolicyGradient(baseline="grpo"),
        optimisation=Optimisation(learning_rate=rate, tokens=1024),
        sampling=Sampling(max_tokens=16),
        evaluation=Evaluation(every=50, tasks=8, group=2),
        threads=1,
    )
    return plain.but(**changed)


def test_a_collapse_is_stopped_and_the_same_command_goes_on_with_another_guard(tmp_path):
    got: list[RunEvent] = []
    folder = write_tiny(tmp_path / "tiny")
    recipe = letters.recipe(folder, steps=11, reward=worthless_from_version_5, guard=CollapseGuard(on_collapse="stop"))
    progress = train(recipe, run=tmp_path / "run", sink=got.append)
    assert progress.tripped
    assert len(progress.steps) < recipe.steps
    (found,) = progress.collapses
    assert progress.stopped == found.sentence
    assert found.sentence.startswith(f"about to collapse at version {len(progress.steps)}: ")
    assert found in [line for line in read_lines(tmp_path / "run") if isinstance(line, Collapse)]
    (alarm,) = [event for event in got if isinstance(event, AlarmRaised) and event.kind == "collapse"]
    assert alarm.sentence == found.sentence
    outcome = msgspec.json.decode((tmp_path / "run" / "summary.json").read_bytes(), type=Outcome)
    assert (outcome.verdict, outcome.alarms) == ("stopped", (found.sentence,))
    assert TrainingResult(tmp_path / "run", outcome).exit_code == 1
    assert "about to collapse at version" in (tmp_path / "run" / "report.html").read_text()
    again = train(recipe.but(guard=CollapseGuard(), steps=len(progress.steps) + 1), run=tmp_path / "run")
    assert (len(again.steps), again.collapses, again.stopped) == (len(progress.steps) + 1, [found], None)


@pytest.mark.system  # half a minute of training
def test_going_back_to_the_best_version_with_a_smaller_step_recovers(tmp_path):
    got: list[RunEvent] = []
    recipe = sums(ABSURD, steps=9, guard=CollapseGuard(on_collapse="roll_back", factor=0.02))
    progress = train(recipe, run=tmp_path / "run", sink=got.append)
    (found,) = progress.collapses
    assert (found.action, found.rate) == ("roll_back", 0.02)
    (back,) = [event for event in got if isinstance(event, RolledBack)]
    assert (back.version, back.best) == (found.version, 0)
    assert [line.version for line in progress.rollbacks] == [found.version]
    first, lost = progress.steps[0].reward, progress.steps[found.version - 1].reward
    after = [step.reward for step in progress.steps[found.version :]]
    assert lost < 0.5 * first
    assert min(after) > 0.7 * first, "no step after the rollback is as bad as the steps before it"
    assert progress.evaluations[-1].mean > 0.7 * progress.evaluations[0].mean


@pytest.mark.system  # half a minute of training
def test_a_sound_training_is_left_alone(tmp_path):
    progress = train(sums(5e-4), run=tmp_path / "run")
    assert (len(progress.steps), progress.collapses, progress.rate_of()) == (8, [], 1.0)


def worthless_from_version_5(trace: Trace) -> float:
    """The score, until weights of version 5 sample: then next to nothing."""
    versions = [version for node in trace.turns() if node.tokens for _, version in node.tokens.versions]
    return (trace.reward or 0.0) * 0.1 + (0.0 if max(versions) >= 5 else 0.9)


@pytest.mark.system  # half a minute of training
def test_a_smaller_step_is_kept_when_the_training_continues(tmp_path):
    folder = write_tiny(tmp_path / "tiny")
    recipe = letters.recipe(folder, steps=11, reward=worthless_from_version_5, guard=CollapseGuard(on_collapse="shrink"))
    whole = train(recipe, run=tmp_path / "whole")
    (found,) = whole.collapses
    assert (found.version, found.action, found.rate, whole.rate_of()) == (8, "shrink", 0.5, 0.5)
    assert "the reward fell from 0.9" in found.why
    train(recipe.but(steps=9), run=tmp_path / "twice")
    assert losses(train(recipe, run=tmp_path / "twice")) == losses(whole)
    warned = train(recipe.but(guard=CollapseGuard()), run=tmp_path / "warned")
    assert [line.rate for line in warned.collapses] == [1.0]
    assert losses(warned)[: found.version + 1] == losses(whole)[: found.version + 1]
    assert losses(warned)[found.version + 1 :] != losses(whole)[found.version + 1 :], "the smaller step shows in the next losses"


def losses(progress: TrainingProgress) -> list[tuple[float, float, float]]:
    return [(step.loss, step.norm, step.reward) for step in progress.steps]
