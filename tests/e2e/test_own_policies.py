"""Seats that learn with weights of their own: each learns what it would learn alone; a stop changes nothing."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import sandlot
from builders.tiny_models import write_tiny
from drive.view import open_pages
from sandlot import Environment, Evidence, Limits, Run, Task
from sandlot.analysis.training_log import read_lines
from sandlot.core.errors import ConfigError
from sandlot.env.module import load_module
from sandlot.model.nn.folder import load_folder
from sandlot.observe.events import EvaluationBegan, RolledBack, RunEvent, StepLearned, TrainingBegan
from sandlot.run.catalog import catalog_entry
from sandlot.run.config import RunConfig
from sandlot.run.prepare import prepare_run
from sandlot.train.algorithms.algorithms import Imitate, PolicyGradient, Ppo
from sandlot.train.algorithms.losses import Clip
from sandlot.train.own_policy import OwnPolicy
from sandlot.train.recipe import Evaluation, Recipe
from sandlot.train.report.progress import TrainingProgress
from sandlot.train.train import train, train_async
from sandlot.train.trainer import Optimisation
from sandlot.train.training import Training
from sandlot.train.training_env import TrainingEnv
from sandlot.web.site import link
from sandlot.wiring.config import ModelConfig

pytestmark = pytest.mark.timeout(300)

seats = load_module(Path(__file__).parent / "test_seat_training.py")
BOTH = {"first": OwnPolicy(), "second": OwnPolicy()}


def recipe(folder: Path, **changed) -> Recipe:
    return seats.recipe(folder, **{"seats": BOTH, "evaluation": Evaluation(every=2, tasks=3, group=2)} | changed)


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    return write_tiny(tmp_path_factory.mktemp("models") / "tiny")


@pytest.fixture(scope="module")
def whole(folder, tmp_path_factory) -> TrainingProgress:
    return train(recipe(folder), run=tmp_path_factory.mktemp("whole") / "run")


def numbers(progress: TrainingProgress, policy: str) -> list[tuple]:
    steps = [step.policies.get(policy, step) for step in progress.steps]
    return [(step.version, step.loss, step.norm, step.reward, step.tokens, step.entropy) for step in steps]


def weights(run: Path, version: int, policy: str) -> bytes:
    place = run / "checkpoints" / f"{version:06d}" / "policies" / policy
    return (place / "model" / "model.safetensors").read_bytes()


@pytest.mark.parametrize(("seat", "other"), [("first", "second"), ("second", "first")])
def test_each_learns_what_it_would_learn_alone(folder, whole, tmp_path, seat, other):
    """In this world neither hears the other: a policy beside another one, and alone, have the same rollouts to learn from."""
    alone = train(recipe(folder, seats={seat: OwnPolicy(), other: "scripted:echo"}), run=tmp_path / "run")
    assert numbers(alone, seat) == numbers(whole, seat)
    assert weights(alone.path, 4, seat) == weights(whole.path, 4, seat) != weights(whole.path, 4, other)
    assert [line.score_of(seat) for line in alone.evaluations] == [line.score_of(seat) for line in whole.evaluations]


async def test_whoever_looks_is_told_the_models_of_both(whole):
    told = "{0} as first, {0} as second".format(json.loads((whole.path / "recipe.json").read_bytes())["model"])
    assert catalog_entry(whole.path).model == told
    async with open_pages(whole.path.parent) as pages:
        assert f"training of</span> {told}" in await pages.get(link(whole.path.name, "training"))
    assert json.loads((whole.path / "summary.json").read_bytes())["model"] == told


def test_a_step_has_the_figures_of_each_and_of_all(whole, folder):
    for step in whole.steps:
        assert list(step.policies) == ["first", "second"]
        assert [part.groups for part in step.policies.values()] == [2, 2]
        assert (step.groups, step.rollouts) == (4, 2 * recipe(folder).group)
        assert step.tokens == sum(part.tokens for part in step.policies.values())
        assert step.environments["pair"].seats == pytest.approx({name: part.reward for name, part in step.policies.items()})


def test_an_evaluation_and_the_summary_tell_them_apart(whole):
    for line in whole.evaluations:
        own = Run(whole.path / line.run).summary().seats
        assert {name: line.score_of(name) for name in BOTH} == pytest.approx({name: own[name].value for name in BOTH})
    outcome = json.loads((whole.path / "summary.json").read_bytes())
    assert (outcome["best_version"], outcome["best_weights"]) == (None, None)
    for name, seat in outcome["environments"]["pair"]["seats"].items():
        scores = [line.score_of(name) for line in whole.evaluations]
        assert seat["own"]
        assert [seat[each]["mean"] for each in ("heldout_before", "heldout_after")] == pytest.approx([scores[0], scores[-1]])
        assert seat["paired"]["difference"]["mean"] == pytest.approx(scores[-1] - scores[0])
        assert scores[seat["best_version"] // 2] == max(scores)
        assert (whole.path / seat["best_weights"] / "config.json").is_file()
        assert seat["last_weights"] == f"checkpoints/000004/policies/{name}/model"
    report = (whole.path / "report.html").read_text()
    assert "By seat: pair" in report
    assert "weights of its own" in report


@pytest.mark.system  # two engines
def test_the_weights_of_each_play_its_seat_in_a_run(whole, tmp_path):
    outcome = json.loads((whole.path / "summary.json").read_bytes())["environments"]["pair"]["seats"]
    models = {name: f"hf:{whole.path / seat['last_weights']}" for name, seat in outcome.items()}
    run = sandlot.run(seats.pair, "scripted:noop", seats=models, rollouts=1, runs=tmp_path)
    played = {node.message.agent: node.model for trace in run for node in trace.turns()}
    assert played == models


def test_stopped_in_order_and_continued_they_learn_the_same(folder, whole, tmp_path):
    def stop(event: RunEvent) -> None:
        if isinstance(event, StepLearned) and event.step.version == 3:
            os.kill(os.getpid(), signal.SIGINT)

    assert train(recipe(folder), run=tmp_path / "run", sink=stop).stopped
    again = train(recipe(folder), run=tmp_path / "run")
    for name in BOTH:
        assert numbers(again, name) == numbers(whole, name)
        assert weights(again.path, 4, name) == weights(whole.path, 4, name)


@pytest.mark.system
def test_killed_and_continued_they_learn_the_same(folder, whole, tmp_path):
    file, place = tmp_path / "apart.py", tmp_path / "run"
    load = f"load_module(Path({str(Path(__file__))!r}))"
    file.write_text(
        "from pathlib import Path\nfrom sandlot.env.module import load_module\n\n\n"
        f"def recipe():\n    return {load}.recipe(Path({str(folder)!r}))\n"
    )
    command = [sys.executable, "-m", "sandlot", "train", str(file), "--run", str(place), "--json"]
    variables = os.environ | {"PYTHONPATH": str(Path(__file__).parent.parent)}
    process = subprocess.Popen(command, env=variables, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    while len([line for line in read_lines(place) if line.version >= 1]) < 2 and process.poll() is None:
        time.sleep(0.002)  # the training has the core
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert len(read_lines(place)) < 7, "it was over before it could be killed"
    subprocess.run(command, env=variables, check=True, capture_output=True)
    again = TrainingProgress.read(place)
    for name in BOTH:
        assert numbers(again, name) == numbers(whole, name)
        assert weights(again.path, 4, name) == weights(whole.path, 4, name)


def test_ended_between_the_updates_of_two_policies_the_step_is_repeated_for_both(folder, whole, tmp_path, monkeypatch):
    """One policy has the new weights and the other has not: such a step must leave nothing behind."""
    opened = Training.continue_from_checkpoint

    async def break_one(training: Training) -> None:
        await opened(training)
        learner = training.policies["second"].learner
        update = learner.update

        def fail(groups, rate=1.0):
            if learner.steps == 2:
                raise OSError("the machine is gone")
            return update(groups, rate)

        monkeypatch.setattr(learner, "update", fail)

    with monkeypatch.context() as patched:
        patched.setattr(Training, "continue_from_checkpoint", break_one)
        with pytest.raises(OSError, match="the machine is gone"):
            train(recipe(folder), run=tmp_path / "run")
    again = train(recipe(folder), run=tmp_path / "run")
    for name in BOTH:
        assert numbers(again, name) == numbers(whole, name)
        assert weights(again.path, 4, name) == weights(whole.path, 4, name)


def test_one_of_its_own_learns_beside_the_shared_model(folder, tmp_path):
    faster = OwnPolicy(optimisation=Optimisation(learning_rate=1e-2, tokens=256))
    progress = train(recipe(folder, seats={"second": faster}, steps=2), run=tmp_path / "run")
    assert list(progress.steps[-1].policies) == ["", "second"]
    kept = progress.path / "checkpoints" / "000002"
    shared, own = load_folder(kept / "model"), load_folder(kept / "policies" / "second" / "model")
    assert not (shared.embedding.weight == own.embedding.weight).all()
    assert {line.environments["pair"].seats["first"].policy for line in progress.evaluations} == {""}
    assert progress.best is not None
    assert catalog_entry(progress.path).model == "{0}, {0} as second".format(recipe(folder).model)


@pytest.mark.system  # five seconds of training; that only one goes back is seen below
def test_only_the_policy_that_got_worse_goes_back(folder, tmp_path):
    """One is rewarded for the opposite of what is measured, and the other for nothing: its weights and scores stay the same."""
    turned = recipe(
        folder,
        reward=lambda trace: -(trace.reward or 0.0) if trace.seat == "first" else 0.0,
        optimisation=Optimisation(learning_rate=3e-2, tokens=256),
        evaluation=Evaluation(every=1, tasks=3, group=8, rollback=0.0),
    )
    place, restored = tmp_path / "run", []

    def look(event: RunEvent) -> None:
        if isinstance(event, RolledBack):
            assert event.policy == "first"
            restored.append(weights(place, event.version, "first") == weights(place, event.best, "first"))

    progress = train(turned, run=place, sink=look)
    assert restored
    assert all(restored)
    assert [(line.policy, line.version) for line in progress.rollbacks] == [
        ("first", line.version)
        for number, line in enumerate(progress.evaluations)
        if line.score_of("first") < max(each.score_of("first") for each in progress.evaluations[: number + 1])
    ]


BEHAVIOUR = Clip(0.2, 0.28, against="behaviour")


@pytest.mark.parametrize(
    ("algorithm", "changed"),
    [(PolicyGradient(loss=BEHAVIOUR), {"staleness": 2}), (Ppo(), {}), (Ppo(loss=BEHAVIOUR), {"staleness": 1, "lora": 2})],
)
def test_both_learn_from_stale_rollouts_and_with_a_critic_each(folder, tmp_path, algorithm, changed):
    critic = isinstance(algorithm, Ppo)
    short = Evaluation(every=3, tasks=1, group=1)
    progress = train(
        recipe(folder, algorithm=algorithm, critic=critic, steps=3, evaluation=short, **changed), run=tmp_path / "run"
    )
    steps = {name: [step.policies[name] for step in progress.steps] for name in BOTH}
    for each in steps.values():
        assert all(step.tokens and step.staleness <= changed.get("staleness", 0) for step in each)
        assert any(step.staleness for step in each) == ("staleness" in changed)
    assert [step.loss for step in steps["first"]] != [step.loss for step in steps["second"]]


def test_adapters_of_each_are_kept_and_the_best_are_merged(folder, tmp_path):
    progress = train(recipe(folder, lora=2, steps=2), run=tmp_path / "run")
    outcome = json.loads((progress.path / "summary.json").read_bytes())["environments"]["pair"]["seats"]
    for seat in outcome.values():
        assert (progress.path / seat["last_adapter"] / "adapter_config.json").is_file()
        assert load_folder(progress.path / seat["best_weights"]).shape == load_folder(folder).shape


def test_a_policy_that_goes_back_leaves_the_merged_weights_of_another(folder, tmp_path):
    """On held-out tasks one scores less after every step and goes back, where the other is at its best."""
    scores = {"first": (0.9, 0.5, 0.5), "second": (0.1, 0.2, 0.3)}
    world = Environment("pair", seats=list(scores), order="at once", limits=Limits(turns=1, tokens=40))
    world.tasks(seats.tasks)
    measured = 0

    def look(event: RunEvent) -> None:
        nonlocal measured
        measured = event.version if isinstance(event, EvaluationBegan) else measured

    @world.check(points=1, seat="first")
    def falls(evidence: Evidence, task: Task) -> float:
        return scores["first"][measured] if task.split == "heldout" else seats.is_long(evidence, task)

    @world.check(points=1, seat="second")
    def rises(evidence: Evidence, task: Task) -> float:
        return scores["second"][measured] if task.split == "heldout" else seats.is_short(evidence, task)

    evaluation = Evaluation(every=1, tasks=1, group=1, rollback=0.1)
    progress = train(recipe(folder, lora=2, steps=2, evaluation=evaluation).but(env=world), run=tmp_path / "run", sink=look)
    assert [(line.policy, line.version) for line in progress.rollbacks] == [("first", 1), ("first", 2)]
    outcome = json.loads((progress.path / "summary.json").read_bytes())["environments"]["pair"]["seats"]
    assert [outcome[name]["best_version"] for name in scores] == [0, 2]
    for seat in outcome.values():
        assert load_folder(progress.path / seat["best_weights"]).shape == load_folder(folder).shape


async def test_each_is_recorded_in_the_setting_of_its_own_model(folder, tmp_path):
    """Weights are recorded with the renderer of their own model, so they run again in the setting that they were trained in."""
    own, other = OwnPolicy(model=f"hf:{folder}"), f"hf:{write_tiny(tmp_path / 'other', 'llama3')}"
    short = Evaluation(every=1, tasks=1, group=1)
    recipes = [
        recipe(folder, model=other, seats=seats, steps=1, evaluation=short)
        for seats in (dict.fromkeys(BOTH, own), {"second": own})
    ]
    apart = await train_async(recipes[0], tmp_path / "apart")
    assert Run(apart.path).manifest.config.model.spec == f"hf:{folder}", "the recipe's model plays nobody"
    beside = await train_async(recipes[1], tmp_path / "beside")
    assert Run(beside.path).manifest.config.model.spec == other
    for kept in (apart.path / "checkpoints/000001/policies/first/model", beside.path / "checkpoints/000001/policies/second/model",
                 beside.path / "checkpoints/000001/model"):  # fmt: skip
        prepared = await prepare_run(seats.pair, RunConfig(env="", model=ModelConfig(spec=f"hf:{kept}")))
        assert prepared.differences == ()


def test_a_model_of_its_own_that_was_trained_elsewhere_is_told_of(folder, whole, tmp_path):
    began = []

    def look(event: RunEvent) -> None:
        began.extend([event] if isinstance(event, TrainingBegan) else [])

    elsewhere = OwnPolicy(model=f"hf:{whole.path / 'checkpoints/000004/policies/second/model'}")
    shorter = TrainingEnv(env=seats.pair, limits={"tokens": 30}, seats={"second": elsewhere})
    once = recipe(folder, seats=None, steps=1, evaluation=Evaluation(every=1, tasks=1, group=1)).but(env=None, envs=[shorter])
    train(once, run=tmp_path / "run", sink=look)
    assert [event.differences for event in began] == [("limits: tokens `30` instead of `40`",)]


def test_both_imitate_a_teacher_each_in_its_own_seat(folder, tmp_path):
    taught = recipe(folder, teacher="scripted:echo", algorithm=Imitate(least=0.0), steps=1)
    (step,) = train(taught, run=tmp_path / "run").steps
    assert all(part.tokens > 0 and part.kl is None for part in step.policies.values())


def test_a_policy_for_a_seat_that_is_not_there_is_refused(folder, tmp_path):
    with pytest.raises(ConfigError, match="has no seat `third`; its seats: first, second"):
        train(recipe(folder, seats={"third": OwnPolicy()}), run=tmp_path / "run")
