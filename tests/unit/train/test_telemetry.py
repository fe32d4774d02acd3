"""A real training as metrics and as spans."""

from pathlib import Path

import pytest

from builders.tiny_models import write_tiny
from fakes.otlp_receiver import receiving
from sandlot.env.module import load_module
from sandlot.observe.events import fan_out
from sandlot.observe.otel import export_spans
from sandlot.observe.prometheus import RunMetrics
from sandlot.train.train import train

pytestmark = pytest.mark.timeout(300)
letters = load_module(Path(__file__).parent.parent.parent / "worlds" / "letters.py")


def test_a_training_shows_its_steps_and_evaluations(tmp_path: Path) -> None:
    metrics = RunMetrics()
    recipe = letters.recipe(write_tiny(tmp_path / "tiny"), steps=2)
    with receiving() as receiver:
        with export_spans(receiver.url) as spans:
            progress = train(recipe, run=tmp_path / "run", sink=fan_out(metrics.receive, spans.receive))
        assert receiver.wrong == []
        (root,) = receiver.roots()
    got = dict(line.rsplit(" ", 1) for line in metrics.text().splitlines() if not line.startswith("#"))
    assert int(got["sandlot_training_steps_total"]) == len(progress.steps) == 2
    assert float(got["sandlot_training_reward"]) == progress.steps[-1].reward
    assert float(got["sandlot_training_entropy"]) == progress.steps[-1].entropy
    assert int(got["sandlot_evaluations_total"]) == len(progress.evaluations) > 0
    assert float(got["sandlot_heldout_score"]) == progress.evaluations[-1].mean
    assert int(got["sandlot_training_rollouts_total"]) == sum(step.rollouts for step in progress.steps)
    assert int(got['sandlot_tokens_total{kind="completion"}']) > 0
    assert int(got["sandlot_rollouts_in_flight"]) == 0
    assert spans.num_lost == 0
    names = [span.name.split()[0] for span in root.children]
    assert names.count("train") == 2
    assert names.count("run") == len(progress.evaluations)
    assert names.count("rollout") == sum(step.rollouts for step in progress.steps)
