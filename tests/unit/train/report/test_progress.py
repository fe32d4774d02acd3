"""Lines of progress: whole ones are read, torn ones were never written, and what weights do not know is learned again."""

import math

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sandlot.analysis.training_log import FILE, read_lines
from sandlot.observe.training_records import Learned, Measured, WentBack
from sandlot.train.report.progress import TrainingProgress


def step(version: int, **fields) -> Learned:
    plain = {
        "reward": 0.5, "passed": 0.5, "outcome": 0.5, "rollouts": 8, "failed": 0, "groups": 2, "informative": 2, "loss": 0.1,
        "norm": 1.0, "tokens": 40, "shared": 1.5, "kl": 0.0, "entropy": 1.0, "clipped": 0.0, "staleness": 0, "sampled": 80,
        "seconds": 2.0, "update_s": 0.5, "phases": {"model": 6.0, "tools": 1.0, "open": 2.0, "grade": 1.0},
    }  # fmt: skip
    return Learned(version=version, **plain | fields)


def measured(version: int, mean: float = 0.5) -> Measured:
    interval = {"low": mean - 0.1, "high": mean + 0.1, "passed": mean, "passed_low": 0.0, "passed_high": 1.0}
    return Measured(version=version, mean=mean, rollouts=4, failed=0, run=f"evaluations/{version:06d}", **interval)


def test_what_was_added_is_read_back(tmp_path):
    progress = TrainingProgress(tmp_path)
    for line in (measured(0), step(1), step(2), measured(2, 0.7), WentBack(version=2, best=0)):
        progress.add(line)
    again = TrainingProgress.read(tmp_path)
    assert (again.steps, again.evaluations, again.rollbacks) == (progress.steps, progress.evaluations, progress.rollbacks)
    assert again.best is not None
    assert again.best.version == 2


def test_lines_of_steps_whose_weights_were_not_kept_are_dropped(tmp_path):
    progress = TrainingProgress(tmp_path)
    for line in (measured(0), step(1), step(2), step(3)):
        progress.add(line)
    assert [line.version for line in TrainingProgress.resume(tmp_path, 2).steps] == [1, 2]
    assert [line.version for line in read_lines(tmp_path)] == [0, 1, 2]


@settings(deadline=None)
@given(data=st.data())
def test_a_line_that_a_crash_cut_off_never_was(data, tmp_path_factory):
    path = tmp_path_factory.mktemp("torn")
    lines = [measured(0), step(1), step(2)]
    written = b"".join(msgspec.json.encode(line) + b"\n" for line in lines)
    cut = data.draw(st.integers(0, len(written)))
    (path / FILE).write_bytes(written[:cut])
    whole = written[:cut].count(b"\n")
    resumed = TrainingProgress.resume(path, 9)
    assert whole <= len(resumed.steps) + len(resumed.evaluations) <= whole + 1  # a line whole but for its end counts
    resumed.add(step(9))
    assert read_lines(path)[-1] == step(9), "what is added after a torn line can be read"


def test_shares_of_time_are_all_of_it():
    shares = step(1).shares
    assert sum(shares.values()) == pytest.approx(1.0)
    assert shares == pytest.approx({"sampling": 0.45, "environment": 0.225, "grading": 0.075, "update": 0.25})
    assert sum(step(1, phases={}, update_s=9.0).shares.values()) == pytest.approx(1.0)


def test_a_figure_that_is_not_a_number_costs_no_line(tmp_path):
    nan = float("nan")
    none_scored = Measured(
        version=1, mean=nan, low=0.0, high=1.0, passed=nan, passed_low=0.0, passed_high=1.0, rollouts=2, failed=2, run="x"
    )
    progress = TrainingProgress(tmp_path)
    progress.add(none_scored)
    progress.add(WentBack(version=1, best=0))
    again = TrainingProgress.resume(tmp_path, 1)
    assert math.isnan(again.evaluations[0].mean)
    assert again.evaluations[0].failed == 2
    assert again.rollbacks == [WentBack(version=1, best=0)]
