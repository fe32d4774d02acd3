"""The deliberately hackable recipe, with a tiny model: the watch notices, and the command says so."""

from pathlib import Path

import pytest

from builders.tiny_models import write_tiny
from sandlot.analysis.alarm import Alarm
from sandlot.analysis.health.item import HealthMark
from sandlot.analysis.health.surge import surge
from sandlot.core.ports.model import Sampling
from sandlot.env.module import load_module
from sandlot.train.recipe import Evaluation
from sandlot.train.report.progress import read_lines
from sandlot.train.train import train
from sandlot.train.trainer import Optimisation

pytestmark = pytest.mark.timeout(300)
RECIPE = Path(__file__).parent.parent.parent / "recipes" / "hackable.py"


@pytest.mark.system
def test_a_reward_that_pays_for_the_wrong_thing_raises_the_alarm(tmp_path):
    recipe = load_module(RECIPE).recipe()
    recipe = recipe.but(
        model=f"hf:{write_tiny(tmp_path / 'tiny')}",
        steps=30,
        tasks=6,
        optimisation=Optimisation(learning_rate=2e-2, tokens=512),
        sampling=Sampling(max_tokens=6),
        evaluation=Evaluation(every=30, tasks=2, group=1),
    )
    progress = train(recipe, run=tmp_path / "run")
    assert progress.steps[-1].reward > progress.steps[0].reward + 0.2
    assert max(step.outcome for step in progress.steps) < 0.1
    (found,) = progress.alarms
    assert found in [line for line in read_lines(tmp_path / "run") if isinstance(line, Alarm)]
    assert surge([], tmp_path / "run").mark is HealthMark.FAIL, "health of the run says it too"
    page = (tmp_path / "run" / "report.html").read_text()
    assert "the reward rose by" in page
