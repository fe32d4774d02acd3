"""MLflow: a database file in the run's folder, or the store that `mlflow:URI` names.

It uses the low-level client, which writes only what it is given: the usual interface also records the user, the command line and
the state of the git repository.
"""

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from sandlot.core.errors import ConfigError
from sandlot.core.types import digest
from sandlot.observe.trackers.tracker import Settings, Tracker, import_package

_EXPERIMENT = "sandlot"
_OWN = "sandlot.run"
"""The tag by which a run that continues is found: a digest of its path, because a path may hold any character."""


def open_mlflow(rest: str, run: Path) -> Tracker:
    """`mlflow` or `mlflow:URI`."""
    if urlsplit(rest).password is not None:
        raise ConfigError(
            "tracker `mlflow:...`: the address holds a password, which would be stored with the recipe; leave it out "
            "and set MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD"
        )
    package = import_package("mlflow.tracking", "mlflow")
    run.mkdir(parents=True, exist_ok=True)
    return _Mlflow(package.MlflowClient(tracking_uri=rest or f"sqlite:///{run.resolve() / 'mlflow.db'}"), run)


class _Mlflow:
    """A run in one MLflow store."""

    def __init__(self, client: Any, run: Path) -> None:
        self._client, self._own = client, digest(str(run.resolve()).encode())[:16]
        self._run = ""

    def begin(self, name: str, settings: Settings, version: int) -> None:  # noqa: ARG002 - MLflow replaces by itself what is noted again
        """Continue the run of an earlier sitting, or create one."""
        found: Any = self._client.get_experiment_by_name(_EXPERIMENT)
        experiment: str = found.experiment_id if found else self._client.create_experiment(_EXPERIMENT)
        earlier: Any = self._client.search_runs([experiment], f"tags.`{_OWN}` = '{self._own}'")
        if earlier:
            self._run = earlier[0].info.run_id
            self._client.update_run(self._run, status="RUNNING")
            return
        self._run = self._client.create_run(experiment, run_name=name, tags={_OWN: self._own}).info.run_id
        for key, value in settings.items():
            self._client.log_param(self._run, key, value)

    def note(self, version: int, figures: Mapping[str, float]) -> None:
        """One metric per figure."""
        entity = import_package("mlflow.entities", "mlflow")
        now = int(time.time() * 1000)
        self._client.log_batch(self._run, metrics=[entity.Metric(name, value, now, version) for name, value in figures.items()])

    def end(self) -> None:
        """Mark the run as finished; a later sitting opens it again."""
        if self._run:
            self._client.set_terminated(self._run)
