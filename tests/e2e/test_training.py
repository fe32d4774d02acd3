"""Whole training runs of a tiny model: the same twice, the same after `kill -9`, and never staler than allowed."""

import os
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import msgspec
import pytest
import torch

from builders.tiny_models import write_tiny
from drive.command_line import ENVIRONMENTS, environ, refused, started
from sandlot import Ask, Environment, Limits, Score, environment
from sandlot.analysis.tokens.audit import check_tokens
from sandlot.cli.views.train import TrainingResult, step_line
from sandlot.core.errors import ConfigError
from sandlot.core.ports.model import Sampling
from sandlot.core.trace import Scored
from sandlot.core.types import Role, Split
from sandlot.env.module import load_module
from sandlot.env.taskset import tasks_of
from sandlot.model.nn.folder import load_folder
from sandlot.model.nn.layout import weights_of
from sandlot.model.nn.lora import load_adapter
from sandlot.observe.event_log import EventReader
from sandlot.observe.events import (
    AdmissionChanged,
    AlarmRaised,
    EvaluationBegan,
    LoopLagged,
    RolloutEnded,
    RolloutEvent,
    RunBegan,
    RunEnded,
    RunEvent,
    StepLearned,
    ignore_event,
)
from sandlot.run.admission_watch import AdmissionWatch
from sandlot.run.results import Run
from sandlot.run.trained import read_trained
from sandlot.store.lock import is_live
from sandlot.train.algorithms.algorithms import Imitate, PolicyGradient
from sandlot.train.checkpoint import Checkpoints
from sandlot.train.choices import TaskChoices
from sandlot.train.loop import learn
from sandlot.train.open_environment import EVALUATION
from sandlot.train.recipe import Evaluation
from sandlot.train.report.progress import TrainingProgress, read_lines
from sandlot.train.report.summary import Outcome
from sandlot.train.tracking import figures_of_step
from sandlot.train.train import train, train_async
from sandlot.train.trainer import Optimisation
from sandlot.train.training import Training
from sandlot.train.variants import polite, spaced

pytestmark = pytest.mark.timeout(300)

WORLD = Path(__file__).parent.parent / "worlds" / "letters.py"
letters = load_module(WORLD)


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    return write_tiny(tmp_path_factory.mktemp("models") / "tiny")


def numbers(progress: TrainingProgress) -> list[tuple]:
    """What must be the same: everything but the time it took."""
    return [(step.version, step.loss, step.norm, step.reward, step.tokens, step.entropy) for step in progress.steps]


@pytest.fixture(scope="module")
def whole(folder, tmp_path_factory) -> TrainingProgress:
    """A run that nothing happened to."""
    return train(letters.recipe(folder), run=tmp_path_factory.mktemp("whole") / "run")


def test_the_same_seed_gives_the_same_losses_and_another_seed_others(folder, whole, tmp_path):
    assert numbers(train(letters.recipe(folder), run=tmp_path / "elsewhere")) == numbers(whole)
    assert numbers(train(letters.recipe(folder, seed=1), run=tmp_path / "other")) != numbers(whole)


def test_a_training_that_adapts_learns_the_same_and_says_how_many_were_in_flight(folder, whole, tmp_path, monkeypatch):
    events: list[RunEvent] = []
    joined, join = [], AdmissionWatch.joined

    def seen(watch, run, *given, **named):
        joined.append(run)
        return join(watch, run, *given, **named)

    monkeypatch.setattr(AdmissionWatch, "joined", seen)
    adapted = train(letters.recipe(folder, adapt=True), run=tmp_path / "run", sink=events.append)
    assert numbers(adapted) == numbers(whole)
    assert adapted.admission is not None
    assert adapted.admission.highest <= 8
    assert any(isinstance(event, AdmissionChanged) for event in events)
    assert len(joined) == 1 + len(adapted.evaluations)
    assert set(joined[1:]) == {joined[0] + EVALUATION}, "what evaluations need of the cache is foreseen too"


@pytest.mark.system
def test_killed_in_the_middle_of_a_step_and_continued_it_gives_the_losses_of_a_run_that_was_not(folder, whole, tmp_path):
    place = tmp_path / "run"
    command = [sys.executable, "-m", "sandlot", "train", WORLD, "--run", place, "--json"]
    process = subprocess.Popen(
        [*map(str, command)], cwd=tmp_path, env=environ(TINY=str(folder)), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    while len([line for line in read_lines(place) if line.version >= 1]) < 2 and process.poll() is None:
        time.sleep(0.002)  # the training has the core
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert len(read_lines(place)) < 6, "it was over before it could be killed"
    done = started("train", WORLD, "--run", place, "--json", cwd=tmp_path, TINY=str(folder))
    assert done.code == 0, done.err
    assert done.json["verdict"] == "complete"
    assert numbers(TrainingProgress.read(place)) == numbers(whole)
    assert [line.version for line in TrainingProgress.read(place).evaluations] == [0, 4]


@pytest.fixture
def checkpoints_are_slow(monkeypatch):
    """None is due between evaluations, as if writing one took minutes."""
    monkeypatch.setattr(Checkpoints, "due", False)


@pytest.mark.usefixtures("checkpoints_are_slow")
def test_stopped_in_order_between_two_checkpoints_it_goes_on_from_its_last_step(folder, whole, tmp_path):
    def stop(event: RunEvent) -> None:
        if isinstance(event, StepLearned) and event.step.version == 2:
            os.kill(os.getpid(), signal.SIGINT)

    first = train(letters.recipe(folder), run=tmp_path / "run", sink=stop)
    assert first.stopped
    assert 2 <= len(first.steps) < 4
    assert (tmp_path / "run" / "checkpoints" / f"{len(first.steps):06d}").is_dir()
    assert numbers(train(letters.recipe(folder), run=tmp_path / "run")) == numbers(whole)


@pytest.mark.usefixtures("checkpoints_are_slow")
def test_ended_by_an_error_between_two_checkpoints_it_computes_the_same_steps_again(folder, whole, tmp_path, monkeypatch):
    publish = Training.publish

    async def fail(training: Training, version: int) -> None:
        if version == 3:
            raise OSError("the disk is gone")
        await publish(training, version)

    monkeypatch.setattr(Training, "publish", fail)
    with pytest.raises(OSError, match="the disk is gone"):
        train(letters.recipe(folder), run=tmp_path / "run")
    assert not list((tmp_path / "run" / "checkpoints").glob("00000[123]"))
    monkeypatch.setattr(Training, "publish", publish)
    assert numbers(train(letters.recipe(folder), run=tmp_path / "run")) == numbers(whole)


def test_a_run_that_is_asked_for_more_steps_goes_on(folder, whole, tmp_path):
    place = tmp_path / "run"
    train(letters.recipe(folder, steps=2), run=place)
    assert numbers(train(letters.recipe(folder), run=place)) == numbers(whole)


def test_another_recipe_in_the_same_folder_is_refused(sandlot_with_torch, folder, tmp_path):
    place = tmp_path / "run"
    train(letters.recipe(folder, steps=1), run=place)
    done = sandlot_with_torch("train", WORLD, "--run", place, "--seed", 5, cwd=tmp_path, TINY=str(folder))
    assert "begun with another seed" in refused(done)


async def test_staleness_stays_within_its_bound_and_lengths_are_as_submitted(folder, tmp_path):
    trained = Counter()

    def recording(groups, values=None):
        trained.update(len(row) for group in groups for member in group.members for row in member.rows)
        return PolicyGradient(baseline="dr_grpo")(groups, values)

    progress = TrainingProgress(tmp_path)
    for steps in (3, 6):  # also across a stop
        progress = await train_async(letters.recipe(folder, steps=steps, staleness=1, algorithm=recording), tmp_path / "run")
    assert [step.version for step in progress.steps] == [1, 2, 3, 4, 5, 6]
    assert max(step.staleness for step in progress.steps) <= 1
    run = Run(tmp_path / "run")
    choices = TaskChoices({"letters": tasks_of(letters.env, Split.TRAIN)}, seed=0)
    submitted = Counter()
    for number in range(6 * 2):
        choice = choices.at(number)
        for member in range(4):
            node = next(iter(run.trace(choice.task.id, choice.before * 4 + member).turns()))
            submitted[len(node.context) // 4 + len(node.tokens)] += 1
    assert trained == submitted


def test_a_model_that_gets_worse_goes_back_to_its_best_weights(folder, tmp_path):
    """The reward is turned round: learning makes the measured score fall."""
    recipe = letters.recipe(
        folder,
        steps=6,
        reward=lambda trace: -(trace.reward or 0.0),
        optimisation=Optimisation(learning_rate=3e-2, tokens=256),
        evaluation=Evaluation(every=1, tasks=4, group=8, rollback=0.005),
    )
    progress = train(recipe, run=tmp_path / "run")
    assert progress.rollbacks
    back = progress.rollbacks[-1]
    assert back.version == 6, "it falls in every step"
    kept = tmp_path / "run" / "checkpoints"
    assert weights(kept / "000006") == weights(kept / f"{back.best:06d}")


def weights(place: Path) -> bytes:
    return (place / "model" / "model.safetensors").read_bytes()


def test_the_report_is_one_file_and_the_summary_has_its_numbers(whole):
    page = (whole.path / "report.html").read_text()
    assert page.count("<svg") >= 6
    assert "http" not in page.replace("http-equiv", "")
    assert "<script" not in page
    found = msgspec.json.decode((whole.path / "summary.json").read_bytes())
    assert found["verdict"] == "complete"
    assert found["rollouts"] == 4 * 2 * 4 + 2 * 3 * 2
    assert found["sandbox"] == "none"
    for name in ("heldout_before", "heldout_after"):
        assert found[name]["low"] <= found[name]["mean"] <= found[name]["high"]
        assert set(found[name]["pass_at"]) == {"1", "2"}
        assert found[name]["gap"] == found[name]["pass_at"]["2"] - found[name]["pass_at"]["1"]
    assert found["paired"]["tasks"] == 3
    assert found["diversity_after"]["groups"] == 2
    assert 0.25 <= found["diversity_after"]["distinct"] <= 1
    assert "Diversity within groups" in page
    assert found["skills"]["short"]["tasks"] == 3
    assert found["skills"]["short"]["before"]["mean"] == found["heldout_before"]["mean"]


async def test_who_sees_that_a_training_has_ended_finds_its_result(folder, tmp_path):
    path, locked = tmp_path / "run", []
    await learn(letters.recipe(folder, steps=1), path, ignore_event, lambda _: locked.append(is_live(path)))
    assert locked == [True]  # the result is stored while the run is still locked
    assert not is_live(path)


@pytest.mark.system
def test_a_trained_model_knows_its_setting_and_is_measured_elsewhere_only_if_that_is_named(whole, tmp_path):
    weights = whole.path / "checkpoints" / "000004" / "model"
    trained = read_trained(weights)
    assert trained is not None
    assert trained.setting_fingerprint == Run(whole.path).manifest.fingerprints.setting
    assert (trained.environment, trained.version, trained.setting["limits"]["tokens"]) == ("letters", 4, 400)
    assert msgspec.json.decode((weights / "config.json").read_bytes())["sandlot_setting"] == trained.setting_fingerprint
    model = ("--model", f"hf:{weights}", "--max-tokens", 4, "-n", 1, "--json")
    assert started("run", WORLD, *model, cwd=tmp_path).code == 0, "where it was trained it is measured"
    other = tmp_path / "other.py"
    other.write_text(WORLD.read_text().replace("tokens=400", "tokens=300"))
    said = refused(started("run", other, *model, cwd=tmp_path))
    assert "environment `letters`: its files or its image have changed since; limits: tokens `300` instead of `400`" in said
    done = started("run", other, *model, "--other-setting", "--run", "named", cwd=tmp_path)
    assert done.code == 0, done.err
    assert len(Run(tmp_path / "named").manifest.other_setting) == 2
    assert "not the one the model was trained in: environment" in started("show", "named", cwd=tmp_path).out


def test_a_training_run_is_shown_as_what_it_came_to_or_how_far_it_got(sandlot_with_torch, whole, tmp_path):
    shown = sandlot_with_torch("show", whole.path, cwd=tmp_path).out
    assert "complete" in shown
    assert "version 4" in shown
    assert "sampling" in shown
    going = tmp_path / "going"
    shutil.copytree(whole.path, going)
    (going / "summary.json").unlink()
    shown = sandlot_with_torch("show", going, cwd=tmp_path).out
    assert "training or interrupted, 4 of 4 steps; best: version" in shown


def test_a_training_is_listed_with_its_steps_and_its_last_held_out_score(sandlot, whole, tmp_path):
    (entry,) = [
        each
        for each in sandlot("list", "--runs", whole.path.parent, "--json", cwd=tmp_path).json["runs"]
        if each["run"] == str(whole.path)
    ]
    shown = sandlot("show", whole.path, "--json", cwd=tmp_path).json
    assert (entry["kind"], entry["state"], entry["steps"], entry["planned_steps"]) == ("training", "complete", 4, 4)
    assert entry["score"] == shown["score"] == shown["outcome"]["heldout_after"]["mean"]


def test_a_dry_run_shows_the_recipe_and_makes_nothing(sandlot_with_torch, folder, tmp_path):
    done = sandlot_with_torch("train", WORLD, "--steps", 7, "--dry-run", "--json", cwd=tmp_path, TINY=str(folder))
    assert done.code == 0
    assert done.json["recipe"]["steps"] == 7
    assert not (tmp_path / "runs").exists()


def test_what_is_not_a_recipe_is_told(sandlot_with_torch, tmp_path):
    (tmp_path / "odd.py").write_text("def recipe():\n    return 3\n")
    assert "returned int" in refused(sandlot_with_torch("train", "odd.py", cwd=tmp_path))
    assert "no function `other`; it has: recipe" in refused(sandlot_with_torch("train", "odd.py:other", cwd=tmp_path))
    assert "no recipe `none.py`" in refused(sandlot_with_torch("train", "none.py", cwd=tmp_path))


def test_a_distance_to_the_first_weights_is_learned_against(folder, tmp_path):
    recipe = letters.recipe(folder, steps=2, algorithm=PolicyGradient(kl=0.1), evaluation=Evaluation(every=2, tasks=1, group=1))
    assert len(train(recipe, run=tmp_path / "run").steps) == 2


# -- put otherwise ---------------------------------------------------------------------------------------------------------


def test_held_out_tasks_are_measured_put_otherwise_before_and_after(folder, tmp_path):
    variants = {"polite": polite, "spaced": spaced, "greedy": Sampling(max_tokens=8, temperature=0)}
    usual = Sampling(max_tokens=6)
    evaluation = Evaluation(every=1, tasks=3, group=2, sampling=usual, variants=variants)
    recipe = letters.recipe(folder, steps=2, evaluation=evaluation)
    place = tmp_path / "run"
    train(recipe, run=place)
    assert sorted(path.name for path in (place / "evaluations").iterdir()) == [
        "000000", "000000-greedy", "000000-polite", "000000-spaced", "000001",
        "000002", "000002-greedy", "000002-polite", "000002-spaced",
    ]  # fmt: skip
    found = msgspec.json.decode((place / "summary.json").read_bytes())["robustness"]
    for name in variants:
        plain, varied = Run(place / "evaluations" / "000002"), Run(place / "evaluations" / f"000002-{name}")
        assert found[name]["after"]["mean"] == varied.summary().score.value
        assert found[name]["change"]["mean"] == pytest.approx(varied.summary().score.value - plain.summary().score.value)
    plain, varied = (Run(place / "evaluations" / name) for name in ("000002", "000002-polite"))
    task = next(iter(plain.rows)).task
    before, after = (
        next(node.message.text for node in run.trace(task, 0).nodes if "Say" in node.message.text) for run in (plain, varied)
    )
    assert before in after != before
    used = {run.name: Run(run).manifest.config.model.sampling for run in (place / "evaluations").iterdir()}
    assert used == {name: variants["greedy"] if "greedy" in name else usual for name in used}
    assert Run(place).manifest.config.model.sampling == recipe.sampling
    for name in ("", *(f"-{name}" for name in variants)):
        first, last = (Run(place / "evaluations" / f"{version}{name}") for version in ("000000", "000002"))
        assert not first.compare(last).note
    assert "Held-out tasks, varied" in (place / "report.html").read_text()


def test_a_variant_must_leave_a_task_its_name(folder, tmp_path):
    variants = {"renamed": lambda task: msgspec.structs.replace(task, id="other")}
    recipe = letters.recipe(folder, steps=1, evaluation=Evaluation(tasks=1, group=1, variants=variants))
    with pytest.raises(ConfigError, match="changed the id of a task"):
        train(recipe, run=tmp_path / "run")
    with pytest.raises(ConfigError, match="becomes the name of a folder"):
        Evaluation(variants={"../out": polite})


def test_an_environment_that_answers_is_varied_too_and_one_that_asks_for_itself_is_refused(folder, tmp_path):
    answers = Environment("answers", limits=Limits(turns=1, tokens=400))
    answers.tasks(letters.tasks)
    answers.check(points=1)(letters.are_letters)
    answers.user(lambda world, text: None)

    @environment("asks", tasks=20)
    def asks(rng):
        yield Score((yield Ask("Say a.")) == "a")

    recipe = letters.recipe(folder, steps=1, evaluation=Evaluation(tasks=1, group=1, variants={"polite": polite}))
    train(recipe.but(env=answers), run=tmp_path / "answers")
    varied = Run(tmp_path / "answers" / "evaluations" / "000001-polite")
    row = next(iter(varied.rows))
    assert any("Hello! I would like" in node.message.text for node in varied.trace(row.task, row.rollout).nodes)
    with pytest.raises(ConfigError, match="`asks` is one function"):
        train(recipe.but(env=asks), run=tmp_path / "asks")


def test_nothing_to_learn_from_is_warned_of_then_stops_the_run_and_the_same_command_goes_on(folder, tmp_path):
    got: list[RunEvent] = []
    flat = letters.recipe(
        folder, steps=9, reward=lambda _trace: 0.5, warn_idle=2, stop_idle=3, evaluation=Evaluation(tasks=1, group=1)
    )
    first = train(flat, run=tmp_path / "run", sink=got.append)
    assert [step.informative for step in first.steps] == [0, 0, 0]
    assert first.tripped
    assert first.stopped.startswith(
        "no group had a training signal in 3 steps in a row (versions 1 to 3): all rollouts of a group got the"
    )
    (alarm,) = [event for event in got if isinstance(event, AlarmRaised)]
    assert (alarm.kind, alarm.sentence.partition(" in a row")[0]) == ("idle", "no group had a training signal in 2 steps")
    require_training_events(got, tmp_path / "run", first)
    found = msgspec.json.decode((tmp_path / "run" / "summary.json").read_bytes())
    assert (found["verdict"], found["stopped"]) == ("stopped", first.stopped)
    assert TrainingResult(tmp_path / "run", msgspec.convert(found, Outcome)).exit_code == 1
    assert "no group had a training signal in 3 steps" in (tmp_path / "run" / "report.html").read_text()
    assert len(train(flat, run=tmp_path / "run").steps) == 6
    assert train(flat.but(stop_idle=0), run=tmp_path / "run").stopped is None


def require_training_events(got: list[RunEvent], path: Path, progress: TrainingProgress) -> None:
    """Every step and evaluation is an event, in order, and the log of the run directory has the same ones."""
    assert list(EventReader(path)) == got
    names = [
        type(event).__name__
        for event in got
        if not isinstance(event, RolloutEvent | RunBegan | RunEnded | AlarmRaised | LoopLagged)
    ]
    assert names == ["TrainingBegan", "EvaluationBegan", "EvaluationEnded", *["StepLearned"] * len(progress.steps)]
    assert [event.step for event in got if isinstance(event, StepLearned)] == progress.steps
    (began,) = [event for event in got if isinstance(event, EvaluationBegan)]
    ended = [event.run for event in got if isinstance(event, RolloutEnded)]
    assert ended.count(began.run) == began.num_rollouts
    assert len(ended) >= began.num_rollouts + sum(step.rollouts for step in progress.steps)
    last = got[-1]
    assert isinstance(last, RunEnded)
    assert (last.stopped, last.tripped) == (progress.stopped, True)


# -- a user ------------------------------------------------------------------------------------------------------------


def test_a_model_learns_from_talks_with_a_user_and_not_from_what_the_user_says(folder, tmp_path):
    long = write_tiny(tmp_path / "long")
    config = msgspec.json.decode((long / "config.json").read_bytes())
    (long / "config.json").write_bytes(msgspec.json.encode({**config, "max_position_embeddings": 8192}))
    talks = {"env": ENVIRONMENTS / "returns", "user": "scripted:persona", "teacher": "scripted:golden", "algorithm": Imitate()}
    recipe = letters.recipe(long, **talks, steps=1, tasks=1, group=1, evaluation=Evaluation(tasks=1, group=1))
    progress = train(recipe, run=tmp_path / "run")
    assert progress.stopped is None
    trained, measured = Run(tmp_path / "run"), Run(tmp_path / "run" / "evaluations" / "000001")
    assert [run.manifest.config.user.spec for run in (trained, measured)] == ["scripted:persona"] * 2
    assert trained.manifest.fingerprints.setting == measured.manifest.fingerprints.setting
    (trace,) = trained
    spoken = [node for node in trace.nodes if node.message.role is Role.USER and node.sampled]
    assert {node.model for node in spoken} == {"scripted:persona"}
    assert all(node.tokens is None or not any(node.tokens.mask) for node in spoken), "the user's words are not trained on"
    assert progress.steps[0].tokens == sum(len(node.tokens) for node in trace.turns())
    assert isinstance(trace.outcome, Scored)
    with pytest.raises(ConfigError, match=r"`letters` has no persona for a model to play"):
        train(letters.recipe(folder, user="scripted:persona"), run=tmp_path / "none")


# -- a teacher ---------------------------------------------------------------------------------------------------------

TAUGHT = {
    "teacher": "scripted:golden",
    "algorithm": Imitate(),
    "tasks": 8,
    "group": 1,
    "resample": 2,
    "optimisation": Optimisation(learning_rate=1e-2, tokens=256),
}


def test_golden_solutions_are_imitated_and_the_model_is_measured_by_itself(folder, tmp_path):
    progress = train(letters.recipe(folder, **TAUGHT), run=tmp_path / "run")
    steps = progress.steps
    assert [step.rollouts for step in steps] == [8] * 4, "every demonstration teaches: none is replaced"
    assert [step.informative for step in steps] == [8] * 4
    assert steps[-1].loss < steps[0].loss - 0.5
    assert max(step.staleness for step in steps) == 0
    assert steps[0].reward == 1.0
    assert progress.evaluations[0].mean < 1.0
    run = Run(tmp_path / "run")
    assert {node.model for trace in run for node in trace.turns()} == {"scripted:golden"}
    assert {step.kl for step in steps} == {None}, "what a teacher did was not sampled by the model"
    assert f"loss [bold]{steps[-1].loss:.3f}[/]" in step_line(steps[-1], "")
    assert "kl " not in step_line(steps[-1], "")
    assert figures_of_step(steps[-1])["train/loss"] == steps[-1].loss
    assert "train/kl" not in figures_of_step(steps[-1])
    page = (tmp_path / "run" / "report.html").read_text()
    assert "Loss of imitation" in page
    assert "KL from the sampling policy" not in page


def test_imitation_stopped_and_continued_gives_the_same_losses(folder, tmp_path):
    once = train(letters.recipe(folder, **TAUGHT), run=tmp_path / "once")
    train(letters.recipe(folder, steps=2, **TAUGHT), run=tmp_path / "twice")
    assert numbers(train(letters.recipe(folder, **TAUGHT), run=tmp_path / "twice")) == numbers(once)


def test_a_teacher_has_no_policy_gradient(folder):
    with pytest.raises(ConfigError, match="is not the policy in training"):
        letters.recipe(folder, teacher="scripted:golden")


def test_only_its_best_rollouts_are_imitated(folder, tmp_path):
    """Rejection sampling: groups without a good one are replaced as long as the recipe allows."""
    recipe = letters.recipe(folder, steps=1, resample=3, algorithm=Imitate(least=2.0))
    (step,) = train(recipe, run=tmp_path / "run").steps
    assert (step.groups, step.informative, step.tokens) == (6, 0, 0)


# -- adapters ----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def with_adapters(folder, tmp_path_factory) -> TrainingProgress:
    """A run in which only adapters learn."""
    return train(letters.recipe(folder, **ADAPTERS), run=tmp_path_factory.mktemp("adapters") / "run")


ADAPTERS = {"lora": 4, "optimisation": Optimisation(learning_rate=3e-2, tokens=256), "algorithm": PolicyGradient(kl=0.01)}


def test_adapters_learn_and_the_engine_samples_with_their_sum(with_adapters):
    assert len(with_adapters.steps) == 4
    assert max(step.kl for step in with_adapters.steps) < 1e-10, "sampled by other weights than those that learned"
    assert len({step.loss for step in with_adapters.steps}) == 4


def test_adapters_killed_and_continued_give_the_same_losses(folder, with_adapters, tmp_path):
    place = tmp_path / "run"
    train(letters.recipe(folder, steps=2, **ADAPTERS), run=place)
    assert numbers(train(letters.recipe(folder, **ADAPTERS), run=place)) == numbers(with_adapters)


def test_the_best_adapters_are_a_peft_folder_and_a_whole_model(folder, with_adapters):
    path = with_adapters.path
    found = msgspec.json.decode((path / "summary.json").read_bytes())
    merged = load_folder(path / found["best_weights"])
    apart = load_adapter(load_folder(folder), path / found["best_adapter"])
    theirs = weights_of(apart)
    assert all(torch.equal(tensor, theirs[name]) for name, tensor in weights_of(merged).items())
    newest = path / "checkpoints" / "000004"
    assert read_trained(newest / "adapter").version == 4
    assert (newest / "adapter" / "adapter_model.safetensors").is_file()
    assert (newest / "model").is_dir() == (found["best_version"] == 4), "whole weights are kept of the best only"
    held = check_tokens(Run(path / "evaluations" / f"{found['best_version']:06d}"), f"hf:{path / found['best_weights']}")
    assert held.verdict == "sound"


@pytest.mark.parametrize("rank", [0, -1, 2.5, "8", True])
def test_a_rank_that_is_none_is_refused(folder, rank):
    with pytest.raises(ConfigError, match="give the rank of the adapters"):
        letters.recipe(folder, lora=rank)


def test_a_rank_larger_than_the_model_is_refused(folder, tmp_path):
    with pytest.raises(ConfigError, match=r"lora is 33, and .* is 32 wide"):
        train(letters.recipe(folder, lora=33), run=tmp_path / "run")
