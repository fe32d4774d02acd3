"""One training over several environments: each has its share, its rollouts and its figures; a stop changes nothing."""

import os
import signal
from collections import Counter
from pathlib import Path

import msgspec
import pytest

from builders.tiny_models import write_tiny
from drive.command_line import ENVIRONMENTS, refused
from sandlot.core.errors import ConfigError
from sandlot.env.module import load_module
from sandlot.observe.events import EvaluationBegan, RolloutEnded, RunEvent, StepLearned
from sandlot.run.config import RunConfig
from sandlot.run.follow import Follower
from sandlot.run.prepare import prepare_run
from sandlot.run.results import Run
from sandlot.run.run import run_config
from sandlot.store.reader import RunReader
from sandlot.train.recipe import Evaluation, Recipe
from sandlot.train.report.progress import TrainingProgress
from sandlot.train.report.summary import Outcome
from sandlot.train.train import train, train_async
from sandlot.train.training_env import TrainingEnv
from sandlot.train.weights import TowardsBand
from sandlot.wiring.config import ModelConfig

pytestmark = pytest.mark.timeout(300)

WORLDS = Path(__file__).parent.parent / "worlds"
letters, digits = (load_module(WORLDS / f"{name}.py") for name in ("letters", "digits"))


def recipe(folder: Path, **changed) -> Recipe:
    both = [letters.env, TrainingEnv(env=digits.env, weight=2.0, limits={"tokens": 300})]
    return letters.recipe(folder, env=None, envs=both, tasks=3, weigh=TowardsBand(of="score"), **changed)


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    return write_tiny(tmp_path_factory.mktemp("models") / "tiny")


@pytest.fixture(scope="module")
def events() -> list[RunEvent]:
    return []


@pytest.fixture(scope="module")
def whole(folder, tmp_path_factory, events) -> TrainingProgress:
    return train(recipe(folder), run=tmp_path_factory.mktemp("whole") / "run", sink=events.append)


def numbers(progress: TrainingProgress) -> list[tuple]:
    return [(step.version, step.loss, step.reward, step.tokens, step.environments) for step in progress.steps]


def test_every_step_says_what_each_environment_contributed(whole):
    for step in whole.steps:
        parts = step.environments
        assert list(parts) == ["letters", "digits"]
        assert sum(part.rollouts for part in parts.values()) == step.rollouts
        assert sum(part.groups for part in parts.values()) == step.groups
        mean = sum(part.reward * part.rollouts for part in parts.values()) / step.rollouts
        assert step.reward == pytest.approx(mean, abs=1e-6)
    assert [part.weight for part in whole.steps[0].environments.values()] == [1.0, 1.0], "nothing is known at first"
    last = whole.steps[-1].environments
    assert last["digits"].weight < last["letters"].weight == 1.0, "random text has hardly any digits"


def test_rollouts_of_each_environment_are_a_run_of_their_own(whole):
    runs = Run(whole.path).environments
    assert list(runs) == ["letters", "digits"]
    for name, run in runs.items():
        assert run.manifest.environment == name
        assert len(run) == sum(step.environments[name].rollouts for step in whole.steps)
        assert len(set(zip(*run.reader.table(["task", "rollout"]).to_pydict().values(), strict=True))) == len(run)
        assert (run.planned, run.verdict) == (None, "complete")
    assert runs["digits"].manifest.limits.tokens == 300
    assert digits.env.limits.tokens == 400, "the environment itself is unchanged"


def test_held_out_tasks_are_measured_by_environment_and_together(whole, events):
    assert [line.version for line in whole.evaluations] == [0, 4]
    for line in whole.evaluations:
        assert {name: part.rollouts for name, part in line.environments.items()} == {"letters": 6, "digits": 6}
        mean = sum(part.mean for part in line.environments.values()) / 2
        assert line.mean == pytest.approx(mean), "as many tasks of each"
        assert line.rollouts == 12
    outcome = msgspec.json.decode((whole.path / "summary.json").read_bytes(), type=Outcome)
    assert outcome.environment == "letters, digits"
    for name, part in outcome.environments.items():
        assert part.heldout_after.mean == whole.evaluations[-1].environments[name].mean
        assert part.paired.tasks == 3
        assert part.rollouts == 12 + sum(step.environments[name].rollouts for step in whole.steps)
    assert outcome.paired.tasks == 6, "two environments have the same task ids"
    began = next(event for event in events if isinstance(event, EvaluationBegan))
    names = {began.run, *began.others}
    assert sum(isinstance(event, RolloutEnded) and event.run in names for event in events) == 24


def test_the_report_shows_each_environment(whole):
    page = (whole.path / "report.html").read_text()
    assert "By environment" in page
    assert "environments/digits/evaluations/000004/" in page


def test_who_follows_the_training_counts_the_rollouts_of_all(whole):
    assert Follower(whole.path).look().rollouts == sum(step.rollouts for step in whole.steps)


def test_stopped_in_order_and_continued_it_learns_the_same(folder, whole, tmp_path):
    def stop(event: RunEvent) -> None:
        if isinstance(event, StepLearned) and event.step.version == 2:
            os.kill(os.getpid(), signal.SIGINT)

    assert train(recipe(folder), run=tmp_path / "run", sink=stop).stopped
    continued = train(recipe(folder), run=tmp_path / "run")
    assert numbers(continued) == numbers(whole)
    assert [line.environments["digits"].mean for line in continued.evaluations] == [
        line.environments["digits"].mean for line in whole.evaluations
    ]


def test_a_rollout_is_never_staler_than_allowed_also_across_a_stop(folder, tmp_path):
    from sandlot.train.algorithms.algorithms import PolicyGradient
    from sandlot.train.algorithms.losses import Clip

    loss = PolicyGradient(loss=Clip(0.2, 0.28, against="behaviour"))
    progress = TrainingProgress(tmp_path)
    for steps in (2, 5):
        progress = train(recipe(folder, steps=steps, staleness=1, algorithm=loss), run=tmp_path / "run")
    assert [step.version for step in progress.steps] == [1, 2, 3, 4, 5]
    assert max(step.staleness for step in progress.steps) <= 1


async def test_the_trained_model_runs_in_each_of_its_environments_and_in_no_other(folder, tmp_path):
    plain = letters.recipe(folder, env=None, envs=[letters.env, digits.env], steps=1, evaluation=Evaluation(tasks=1, group=1))
    await train_async(plain, tmp_path / "run")
    model = ModelConfig(spec=f"hf:{tmp_path / 'run' / 'checkpoints' / '000001' / 'model'}")
    for env in (letters.env, digits.env):
        assert (await prepare_run(env, RunConfig(env="", model=model))).differences == ()
    with pytest.raises(ConfigError, match="another setting"):
        await run_config(RunConfig(env=str(ENVIRONMENTS / "arithmetic"), model=model), runs=tmp_path / "runs")


def test_no_more_rollouts_of_an_environment_are_in_flight_than_it_allows(folder, tmp_path):
    flying, most = Counter(), Counter()

    def count(event: RunEvent) -> None:
        kind, name = type(event).__name__, getattr(event, "run", "")
        if name.endswith("/digits") and kind in {"RolloutBegan", "AgentEnded"}:
            flying["digits"] += 1 if kind == "RolloutBegan" else -1
            most["digits"] = max(most["digits"], flying["digits"])

    capped = [letters.env, TrainingEnv(env=digits.env, at_once=2)]
    train(
        letters.recipe(folder, env=None, envs=capped, steps=1, evaluation=Evaluation(tasks=1, group=1)),
        run=tmp_path / "r",
        sink=count,
    )
    assert most["digits"] == 2


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"env": letters.env}, "not both"),
        ({"envs": []}, "not both"),
        ({"envs": "letters"}, "give a list"),
        ({"curriculum": ("word-0",)}, "TrainingEnv"),
        ({"user": "scripted:persona"}, "TrainingEnv"),
        ({"envs": [letters.env, letters.env]}, "two environments have the name `letters`"),
        ({"envs": [letters.env, TrainingEnv(env=digits.env, limits={"turnz": 1})]}, "turnz"),
    ],
)
def test_what_cannot_be_trained_together_is_refused(folder, tmp_path, changed, message):
    with pytest.raises(ConfigError, match=message):
        train(recipe(folder).but(**changed), run=tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_another_weight_is_another_training_but_a_cap_is_not(folder, whole):
    capped = [letters.env, TrainingEnv(env=digits.env, weight=2.0, limits={"tokens": 300}, at_once=1)]
    assert numbers(train(recipe(folder).but(envs=capped), run=whole.path)) == numbers(whole)
    with pytest.raises(ConfigError, match="another envs"):
        train(recipe(folder).but(envs=[letters.env, digits.env]), run=whole.path)


def test_the_command_trains_and_shows_it(sandlot_with_torch, folder, tmp_path):
    file = tmp_path / "both.py"
    file.write_text(
        f"from sandlot.train import Evaluation, Recipe, Sampling\n\n\ndef recipe() -> Recipe:\n"
        f"    return Recipe(name='both', envs=[{str(WORLDS / 'letters.py')!r}, {str(WORLDS / 'digits.py')!r}],\n"
        f"        model='hf:{folder}', steps=1, tasks=2, group=2, resample=1, sampling=Sampling(max_tokens=4),\n"
        f"        evaluation=Evaluation(tasks=1, group=1), threads=1)\n"
    )
    done = sandlot_with_torch("train", file, "--json", cwd=tmp_path)
    assert done.code == 0, done.err
    assert set(done.json["environments"]) == {"letters", "digits"}
    assert len(RunReader(tmp_path / "runs" / "both" / "environments" / "digits")) == 2
    shown = sandlot_with_torch("show", "runs/both", cwd=tmp_path)
    assert "digits" in shown.out
    assert "curriculum" in refused(sandlot_with_torch("train", file, "--curriculum", "x.json", cwd=tmp_path))
