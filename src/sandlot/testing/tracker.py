"""What every `Tracker` promises.

Your fixtures are `tracker_of`, a function that opens your tracker for the folder of a run, and `figures_of`, a function that
reads what it stored for that run: for each name the figures by version.
"""

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from sandlot.observe.trackers.tracker import Tracker

_MakeTracker = Callable[[Path], Tracker]
_ReadFigures = Callable[[Path], dict[str, dict[int, float]]]
_SETTINGS = {"environment": "letters", "learning_rate": 0.003, "steps": 4}


def test_figures_are_kept_under_their_names_at_their_versions(
    tracker_of: _MakeTracker, figures_of: _ReadFigures, tmp_path: Path
) -> None:
    tracker = tracker_of(tmp_path / "run")
    tracker.begin("run", _SETTINGS, 0)
    tracker.note(0, {"heldout/score": 0.25})
    for version in (1, 2, 3):
        tracker.note(version, {"train/reward": version / 8, "train/loss": -version * 1e-9})
    tracker.note(3, {"heldout/score": 0.5})
    tracker.end()
    found = figures_of(tmp_path / "run")
    assert found["train/reward"] == {1: 0.125, 2: 0.25, 3: 0.375}
    assert found["train/loss"] == pytest.approx({1: -1e-9, 2: -2e-9, 3: -3e-9})
    assert found["heldout/score"] == {0: 0.25, 3: 0.5}


@pytest.mark.parametrize("folder", ["run", "Ann's `run`"])
def test_a_run_that_goes_on_keeps_what_it_had(
    tracker_of: _MakeTracker, figures_of: _ReadFigures, tmp_path: Path, folder: str
) -> None:
    for version in (0, 2):
        tracker = tracker_of(tmp_path / folder)
        tracker.begin("run", _SETTINGS, version)
        for step in (version + 1, version + 2):
            tracker.note(step, {"train/reward": step / 8})
        tracker.end()
    assert figures_of(tmp_path / folder)["train/reward"] == {1: 0.125, 2: 0.25, 3: 0.375, 4: 0.5}


def test_a_step_that_is_learned_again_has_its_last_figures(
    tracker_of: _MakeTracker, figures_of: _ReadFigures, tmp_path: Path
) -> None:
    for version, reward in ((0, 0.25), (1, 0.75)):  # killed after step 2, which was not kept
        tracker = tracker_of(tmp_path / "run")
        tracker.begin("run", _SETTINGS, version)
        for step in (version + 1, 2):
            tracker.note(step, {"train/reward": reward})
        tracker.end()
    assert figures_of(tmp_path / "run")["train/reward"] == {1: 0.25, 2: 0.75}


def test_one_that_never_began_can_be_ended(tracker_of: _MakeTracker, figures_of: _ReadFigures, tmp_path: Path) -> None:
    tracker_of(tmp_path / "run").end()
    assert not any(figures_of(tmp_path / "run").values()) if (tmp_path / "run").exists() else True


def test_nothing_of_the_machine_or_its_variables_is_written(
    tracker_of: _MakeTracker,
    figures_of: _ReadFigures,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-very-secret-value")
    monkeypatch.setattr(sys, "argv", [*sys.argv, "--api-key=argument-secret"])
    tracker = tracker_of(tmp_path / "run")
    tracker.begin("run", _SETTINGS, 0)
    sys.stdout.write("printed-secret\n")
    tracker.note(1, {"train/reward": 1.0})
    tracker.end()
    written = b"".join(path.read_bytes() for path in (tmp_path / "run").rglob("*") if path.is_file())
    for secret in (b"very-secret-value", b"argument-secret", b"printed-secret"):
        assert secret not in written
