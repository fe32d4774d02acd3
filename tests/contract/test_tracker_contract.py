"""Our trackers, held to the suite that we ship."""

import json
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from sandlot.testing.tracker import *
from sandlot.train.tracking import open_tracker

pytestmark = pytest.mark.timeout(300)  # the packages are large


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


@pytest.fixture
def tracker_of(kind):
    return Remembered if kind is FAKE else lambda run: open_tracker(kind.spec, run)


@pytest.fixture
def figures_of(kind):
    return kind.read
