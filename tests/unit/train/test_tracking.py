"""Trackers beside a training run: told of figures only, opened before any work, and left out when they fail."""

import logging
import sys
import threading
from pathlib import Path

import msgspec
import pytest

from builders.tiny_models import write_tiny
from sandlot.analysis.training_log import read_lines
from sandlot.core.errors import ConfigError
from sandlot.env.module import load_module
from sandlot.observe.events import EvaluationEnded, SinkFailed, StepLearned, ignore_event
from sandlot.observe.training_records import EnvironmentScore, EnvironmentStep, Learned, Measured, SeatScore
from sandlot.train import tracking
from sandlot.train.tracking import Tracking, figures_of_evaluation, figures_of_step, open_tracker, settings_of
from sandlot.train.train import train

pytestmark = pytest.mark.timeout(300)

WORLD = Path(__file__).parent.parent.parent / "worlds" / "letters.py"
letters = load_module(WORLD)


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    return write_tiny(tmp_path_factory.mktemp("models") / "tiny")


class Failures(list):
    """A sink that keeps which others failed, and why."""

    def __call__(self, event):
        if isinstance(event, SinkFailed):
            self.append((event.sink, event.reason))


def learned(version: int) -> StepLearned:
    return StepLearned(step=step(version), alarmed=False)


class Told:
    """Keeps what it is told; fails at a version, if it shall."""

    def __init__(self, fails: int | None = None):
        self.lines, self.fails = [], fails

    def begin(self, name, settings, version):
        self.lines.append(("begin", name, dict(settings), version))

    def note(self, version, figures):
        if version == self.fails:
            raise OSError("no space left on device")
        self.lines.append(("note", version, dict(figures)))

    def end(self):
        self.lines.append(("end",))


MEASURED = Measured(
    version=2, mean=0.5, low=0.25, high=float("nan"), passed=0.1, passed_low=0, passed_high=1, rollouts=4, failed=1, run="x"
)


def step(version: int) -> Learned:
    return Learned(
        version=version, reward=0.5, passed=0.25, outcome=0.25, rollouts=8, failed=1, groups=4, informative=3, loss=-0.1,
        norm=2.0, tokens=100, shared=1.5, kl=1e-9, entropy=2.5, clipped=0.0, staleness=0, sampled=120, seconds=4.0,
        update_s=1.0, phases={"model": 2.0, "grade": 1.0},
    )  # fmt: skip


def test_a_run_with_a_tracker_is_on_its_board_and_goes_on_there(folder, tmp_path):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    for steps in (1, 2):
        progress = train(letters.recipe(folder, steps=steps, tracker="tensorboard"), run=tmp_path / "run")
    events = EventAccumulator(str(tmp_path / "run" / "tensorboard")).Reload()
    rewards = {event.step: event.value for event in events.Scalars("train/reward")}
    assert rewards == pytest.approx({step.version: step.reward for step in progress.steps})
    scores = {event.step: event.value for event in events.Scalars("heldout/score")}
    assert scores == pytest.approx({line.version: line.mean for line in progress.evaluations})
    assert str(folder) not in "".join(events.Tags()["tensors"])


def test_one_that_fails_is_left_out_with_a_warning_and_everything_else_goes_on(caplog):
    failures, tracker = Failures(), Told(fails=2)
    tracks = Tracking("told:somewhere", tracker, failures)
    with caplog.at_level(logging.WARNING):
        for version in (1, 2, 3):
            tracks.receive(learned(version))
        tracks.close()
    assert [line[:2] for line in tracker.lines] == [("note", 1), ("end",)]
    assert failures == [("told", "it raised: OSError: no space left on device")]
    (record,) = [record for record in caplog.records if record.message == "sink failed"]
    assert record.sink == "told"


def test_one_that_failed_is_not_waited_for(monkeypatch):
    monkeypatch.setattr(tracking, "_END_S", 3600)  # whoever waits for it runs into this test's limit
    failures = Failures()
    tracks = Tracking("told", Told(fails=1), failures)
    tracks.receive(learned(1))
    tracks.close()
    assert failures == [("told", "it raised: OSError: no space left on device")]


@pytest.mark.parametrize("ends", ["late", "badly"])
def test_the_first_reason_is_the_one_that_is_told(ends, monkeypatch):
    monkeypatch.setattr(tracking, "_END_S", 0.01 if ends == "late" else 3600)
    never, ending = threading.Event(), threading.Event()
    failures, tracker = Failures(), Told(fails=1)

    def end():
        ending.set()
        if ends == "badly":
            raise RuntimeError("nothing was open")
        never.wait()

    tracker.end = end
    tracks = Tracking("told", tracker, failures)
    tracks.receive(learned(1))
    ending.wait()
    tracks.close()
    never.set()
    assert failures == [("told", "it raised: OSError: no space left on device")]


def test_one_that_cannot_end_is_told():
    failures, tracker = Failures(), Told()
    tracker.end = lambda: int("")
    Tracking("told", tracker, failures).close()
    assert failures == [("told", "it raised: ValueError: invalid literal for int() with base 10: ''")]


def test_one_that_hangs_holds_nobody_up(monkeypatch):
    monkeypatch.setattr(tracking, "_END_S", 0.01)
    never = threading.Event()
    failures, tracker = Failures(), Told()
    tracker.note = lambda *_: never.wait()
    tracks = Tracking("told", tracker, failures)
    for version in range(1, tracking._BEHIND + 3):
        tracks.receive(learned(version))
    assert failures == [("told", "it is 1000 notes behind")]
    tracks.close()
    never.set()
    assert len(failures) == 1


def test_a_training_goes_on_without_a_tracker_that_cannot_write(folder, tmp_path):
    (tmp_path / "file").write_text("not a folder")
    failures = Failures()
    progress = train(
        letters.recipe(folder, steps=1, tracker=f"tensorboard:{tmp_path / 'file'}"), run=tmp_path / "run", sink=failures
    )
    assert len(progress.steps) == 1
    assert [name for name, _ in failures] == ["tensorboard"]


def test_figures_without_a_value_are_left_out():
    tracker = Told()
    tracks = Tracking("told", tracker, ignore_event)
    tracks.receive(EvaluationEnded(evaluation=MEASURED))
    tracks.close()
    assert tracker.lines == [
        ("note", 2, {"heldout/score": 0.5, "heldout/score_low": 0.25, "heldout/passed": 0.1, "heldout/failed": 1.0}),
        ("end",),
    ]
    assert set(figures_of_step(step(1))) >= {"train/reward", "train/informative", "time/sampling", "train/tokens_per_s"}
    assert "heldout/score_high" in figures_of_evaluation(MEASURED)


def in_environments(*names: str) -> tuple[Learned, Measured]:
    """A step and an evaluation in which a seat of the same name learns in each environment, in each with another score."""
    counts = {"passed": 0.0, "rollouts": 1, "failed": 0}
    steps = {
        name: EnvironmentStep(reward=0.5, groups=1, informative=1, seats={"ada": number / 4}, **counts)
        for number, name in enumerate(names)
    }
    scores = {
        name: EnvironmentScore(
            mean=0.5,
            low=0.4,
            high=0.6,
            run="r",
            seats={"ada": SeatScore(mean=number / 4, low=0.0, high=1.0, passed=0.0)},
            **counts,
        )
        for number, name in enumerate(names)
    }
    policies = {"ada": step(1)} if len(names) == 1 else {}
    return (
        msgspec.structs.replace(step(1), environments=steps, policies=policies),
        msgspec.structs.replace(MEASURED, environments=scores),
    )


def test_a_seat_of_the_same_name_in_two_environments_has_two_figures():
    learned, measured = in_environments("coins", "ada")
    told = figures_of_step(learned) | figures_of_evaluation(measured)
    assert [told[f"train/{name}/ada/reward"] for name in ("coins", "ada")] == [0.0, 0.25]
    assert [told[f"heldout/{name}/ada/score"] for name in ("coins", "ada")] == [0.0, 0.25]
    assert (told["heldout/ada/score"], told["train/ada/reward"]) == (0.5, 0.5), "the environment's own"


def test_seats_of_one_environment_have_a_prefix_of_their_own():
    learned, measured = in_environments("coins")
    told = figures_of_step(learned) | figures_of_evaluation(measured)
    assert {name for name in told if "ada" in name} == {
        "heldout/seats/ada/score",
        *(f"train/seats/ada/{name}" for name in ("reward", "loss", "norm", "kl", "entropy", "clipped")),
    }


def test_settings_hold_no_addresses_and_no_folders(folder):
    recipe = letters.recipe(folder, teacher="openai:m@http://user:secret@host/v1", algorithm=letters.PolicyGradient, name="n")
    told = " ".join(f"{key}={value}" for key, value in settings_of(recipe).items())
    assert "secret" not in told
    assert str(folder.parent) not in told
    assert "learning_rate=0.003" in told


@pytest.mark.parametrize(
    ("spec", "told"),
    [
        ("tensorbord", "did you mean `tensorboard`"),
        ("nothing", "there are: `tensorboard`, `mlflow`, `wandb`"),
        ("mlflow:http://me:secret@host", "set MLFLOW_TRACKING_USERNAME"),
        ("wandb:a/b", "write `wandb:PROJECT`"),
    ],
)
def test_a_tracker_that_cannot_be_is_told_before_anything_is_done(spec, told, tmp_path):
    with pytest.raises(ConfigError, match=told.partition("`")[0]) as raised:
        open_tracker(spec, tmp_path / "run")
    assert told in str(raised.value)
    assert "secret" not in str(raised.value)
    assert not (tmp_path / "run").exists()


def test_a_missing_package_is_told_before_anything_is_done(folder, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "wandb", None)
    with pytest.raises(ConfigError, match=r"pip install 'sandlot\[wandb\]'"):
        train(letters.recipe(folder, steps=1, tracker="wandb"), run=tmp_path / "run")
    assert not (tmp_path / "run").exists()
    assert read_lines(tmp_path / "run") == []
