"""Preference training from a file, and GRPO on a reward model, with a tiny model: exact after an interruption."""

import json
import os
import signal
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from builders.tiny_models import write_tiny
from sandlot.core.errors import ConfigError
from sandlot.env.module import load_module
from sandlot.observe.events import RunEvent, StepLearned, TrainingBegan
from sandlot.run.results import Run
from sandlot.train.algorithms.algorithms import Prefer
from sandlot.train.algorithms.preferences import Dpo
from sandlot.train.report.progress import TrainingProgress
from sandlot.train.report.summary import Outcome
from sandlot.train.reward_model import RewardModel
from sandlot.train.reward_training import RewardRecipe, train_reward_model
from sandlot.train.train import train
from sandlot.train.trainer import Optimisation

pytestmark = pytest.mark.timeout(300)

letters = load_module(Path(__file__).parent.parent / "worlds" / "letters.py")


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    return write_tiny(tmp_path_factory.mktemp("models") / "tiny")


@pytest.fixture(scope="module")
def pairs(tmp_path_factory) -> Path:
    """Letters are better than signs; the last line teaches nothing."""
    words = ("abcd", "efgh", "aceg", "bdfh", "hgfe", "dcba", "fade", "head", "cafe", "bead")
    rows = [{"prompt": f"Say {word}.", "chosen": word, "rejected": "?!,. :;-", "task": word} for word in words]
    rows.append({"prompt": "Say x.", "chosen": "x", "rejected": "x", "task": "x"})
    file = tmp_path_factory.mktemp("pairs") / "pairs.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return file


def recipe(folder: Path, pairs: Path, **changed):
    return letters.recipe(folder, pairs=pairs, algorithm=Prefer(loss=Dpo(0.5)), tasks=4, **changed)


def numbers(progress: TrainingProgress) -> list[tuple]:
    return [(step.version, step.loss, step.norm, step.agreement, step.tokens) for step in progress.steps]


def test_dpo_from_a_file_takes_no_rollouts_and_goes_on_after_an_interruption(sandlot, folder, pairs, tmp_path):
    events: list[RunEvent] = []
    whole = train(recipe(folder, pairs), run=tmp_path / "whole", sink=events.append)
    [began] = [event for event in events if isinstance(event, TrainingBegan)]
    assert (began.pairs, "1 of 11 pairs" in began.left_out) == (10, True)
    assert [line.version for line in whole.evaluations] == [0, 4]
    assert not list(Run(tmp_path / "whole").rows)
    assert whole.steps[-1].loss < whole.steps[0].loss
    assert whole.steps[-1].agreement == 1.0

    def stop(event: RunEvent) -> None:
        if isinstance(event, StepLearned) and event.step.version == 2:
            os.kill(os.getpid(), signal.SIGINT)

    first = train(recipe(folder, pairs), run=tmp_path / "run", sink=stop)
    assert first.stopped
    assert numbers(train(recipe(folder, pairs), run=tmp_path / "run")) == numbers(whole)
    outcome = msgspec.json.decode((tmp_path / "run" / "summary.json").read_bytes(), type=Outcome)
    assert (outcome.verdict, outcome.algorithm, outcome.steps) == ("complete", "Prefer", 4)
    assert "Pairs ranked rightly" in (tmp_path / "run" / "report.html").read_text()
    shown = sandlot("show", tmp_path / "run", cwd=tmp_path)
    assert shown.code == 0, shown.err
    assert "ranked rightly" in shown.out


def test_other_pairs_in_the_same_folder_are_refused(folder, pairs, tmp_path):
    mine = tmp_path / "pairs.jsonl"
    mine.write_bytes(pairs.read_bytes())
    train(recipe(folder, mine, steps=1), run=tmp_path / "run")
    mine.write_bytes(b"\n".join(pairs.read_bytes().splitlines()[1:]))
    with pytest.raises(ConfigError, match="begun with other pairs"):
        train(recipe(folder, mine, steps=2), run=tmp_path / "run")


def test_grpo_learns_from_a_reward_model_while_the_environments_score_is_recorded(folder, pairs, tmp_path):
    taste = RewardRecipe(
        pairs=pairs, model=f"hf:{folder}", steps=8, batch=4, optimisation=Optimisation(learning_rate=3e-3), threads=1
    )
    record = train_reward_model(taste, tmp_path / "taste")
    assert record.after.share == 1.0
    reward = RewardModel(tmp_path / "taste")
    made = train(letters.recipe(folder, steps=2, reward=reward), run=tmp_path / "run")
    traces = list(Run(tmp_path / "run"))
    assert len(traces) == 16
    rewards, scores = [reward(trace) for trace in traces], [trace.reward for trace in traces]
    assert sum(step.reward for step in made.steps) / 2 == pytest.approx(sum(rewards) / 16, abs=1e-5)
    assert sum(step.outcome for step in made.steps) / 2 == pytest.approx(sum(scores) / 16, abs=1e-9)
    assert all(0 < each < 1 for each in rewards)
    assert numbers(train(letters.recipe(folder, steps=2, reward=reward), run=tmp_path / "again")) == numbers(made)
    train_reward_model(replace(taste, seed=1, steps=1), tmp_path / "other")
    with pytest.raises(ConfigError, match="begun with another reward"):
        train(letters.recipe(folder, steps=3, reward=RewardModel(tmp_path / "other")), run=tmp_path / "run")
