"""What every `Tracker` promises. A third party adds its own to `TRACKERS` and runs this file."""

import json
import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from sandlot.observe.trackers.tracker import Tracker
from sandlot.train.tracking import open_tracker

pytestmark = pytest.mark.timeout(120)  # the packages are large

SETTINGS = {"environment": "letters", "learning_rate": 0.003, "steps": 4}


@dataclass(frozen=True)
class Kind:
    """How one is opened, and how what it keeps is read: for each name the figures by version."""

    spec: str
    read: Callable[[Path], dict[str, dict[int, float]]]


class Remembered:
    """The honest fake: a line a note."""

    def __init__(self, run: Path) -> None:
        self._file = run / "figures.jsonl"

    def begin(self, name, settings, version):
        lines = self._file.read_text().splitlines() if self._file.is_file() else []
        self._file.parent.mkdir(parents=True, exist_ok=True)
        self._file.write_text("".join(f"{line}\n" for line in lines if json.loads(line)[0] <= version))

    def note(self, version, figures):
        with self._file.open("a") as out:
            out.write(json.dumps([version, dict(figures)]) + "\n")

    def end(self):
        pass


def read_remembered(run: Path) -> dict[str, dict[int, float]]:
    found: dict[str, dict[int, float]] = {}
    file = run / "figures.jsonl"
    for version, figures in map(json.loads, file.read_text().splitlines() if file.is_file() else ()):
        for name, value in figures.items():
            found.setdefault(name, {})[version] = value
    return found


def read_tensorboard(run: Path) -> dict[str, dict[int, float]]:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(str(run / "tensorboard")).Reload()
    return {name: {event.step: event.value for event in events.Scalars(name)} for name in events.Tags()["scalars"]}


def read_mlflow(run: Path) -> dict[str, dict[int, float]]:
    from mlflow.tracking import MlflowClient

    client = MlflowClient(tracking_uri=f"sqlite:///{run.resolve() / 'mlflow.db'}")
    experiment = client.get_experiment_by_name("sandlot")
    (kept,) = client.search_runs([experiment.experiment_id]) if experiment else [None]
    return {
        name: {metric.step: metric.value for metric in client.get_metric_history(kept.info.run_id, name)}
        for name in (kept.data.metrics if kept else ())
    }


def read_wandb(run: Path) -> dict[str, dict[int, float]]:
    found: dict[str, dict[int, float]] = {}
    for record in wandb_records(run):
        if record.HasField("history"):
            row = {item.key or item.nested_key[0]: json.loads(item.value_json) for item in record.history.item}
            for name, value in row.items():
                if not name.startswith("_"):
                    found.setdefault(name, {})[row["_step"]] = value
    return found


def wandb_records(run: Path) -> Iterator:
    from wandb.proto import wandb_internal_pb2
    from wandb.sdk.internal.datastore import DataStore

    for file in sorted(run.glob("wandb/*/wandb/offline-run-*/*.wandb")):
        store = DataStore()
        store.open_for_scan(str(file))
        while (data := store.scan_data()) is not None:
            record = wandb_internal_pb2.Record()
            record.ParseFromString(data)
            yield record


FAKE = Kind("remembered", read_remembered)
KINDS = [FAKE, Kind("tensorboard", read_tensorboard), Kind("mlflow", read_mlflow), Kind("wandb", read_wandb)]
CHOSEN = os.environ.get("SANDLOT_TRACKERS", "remembered tensorboard").split()
"""`make test-trackers` brings the packages of the others."""
TRACKERS = [kind for kind in KINDS if kind.spec in CHOSEN]


@pytest.fixture(params=TRACKERS, ids=lambda kind: kind.spec)
def kind(request) -> Kind:
    return request.param


def opened(kind: Kind, run: Path) -> Tracker:
    return Remembered(run) if kind is FAKE else open_tracker(kind.spec, run)


def test_figures_are_kept_under_their_names_at_their_versions(kind, tmp_path):
    tracker = opened(kind, tmp_path / "run")
    tracker.begin("run", SETTINGS, 0)
    tracker.note(0, {"heldout/score": 0.25})
    for version in (1, 2, 3):
        tracker.note(version, {"train/reward": version / 8, "train/loss": -version * 1e-9})
    tracker.note(3, {"heldout/score": 0.5})
    tracker.end()
    found = kind.read(tmp_path / "run")
    assert found["train/reward"] == {1: 0.125, 2: 0.25, 3: 0.375}
    assert found["train/loss"] == pytest.approx({1: -1e-9, 2: -2e-9, 3: -3e-9})
    assert found["heldout/score"] == {0: 0.25, 3: 0.5}


@pytest.mark.parametrize("folder", ["run", "Ann's `run`"])
def test_a_run_that_goes_on_keeps_what_it_had(kind, tmp_path, folder):
    for version in (0, 2):
        tracker = opened(kind, tmp_path / folder)
        tracker.begin("run", SETTINGS, version)
        for step in (version + 1, version + 2):
            tracker.note(step, {"train/reward": step / 8})
        tracker.end()
    assert kind.read(tmp_path / folder)["train/reward"] == {1: 0.125, 2: 0.25, 3: 0.375, 4: 0.5}


def test_a_step_that_is_learned_again_has_its_last_figures(kind, tmp_path):
    for version, reward in ((0, 0.25), (1, 0.75)):  # killed after step 2, which was not kept
        tracker = opened(kind, tmp_path / "run")
        tracker.begin("run", SETTINGS, version)
        for step in (version + 1, 2):
            tracker.note(step, {"train/reward": reward})
        tracker.end()
    assert kind.read(tmp_path / "run")["train/reward"] == {1: 0.25, 2: 0.75}


def test_one_that_never_began_can_be_ended(kind, tmp_path):
    opened(kind, tmp_path / "run").end()
    assert not any(kind.read(tmp_path / "run").values()) if (tmp_path / "run").exists() else True


def test_nothing_of_the_machine_or_its_variables_is_written(kind, tmp_path, monkeypatch, capfd):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-very-secret-value")
    monkeypatch.setattr(sys, "argv", [*sys.argv, "--api-key=argument-secret"])
    tracker = opened(kind, tmp_path / "run")
    tracker.begin("run", SETTINGS, 0)
    sys.stdout.write("printed-secret\n")
    tracker.note(1, {"train/reward": 1.0})
    tracker.end()
    written = b"".join(path.read_bytes() for path in (tmp_path / "run").rglob("*") if path.is_file())
    for secret in (b"very-secret-value", b"argument-secret", b"printed-secret"):
        assert secret not in written
