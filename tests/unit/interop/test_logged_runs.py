import json

import anyio
import pytest

from builders.inspect_logs import HEADER, header, sample, write_eval
from sandlot.analysis.health.health import quick_health
from sandlot.core.errors import ConfigError
from sandlot.interop.logged_runs import import_run, log_readers
from sandlot.run.regrade import regrade_run


def test_a_log_becomes_a_run(tmp_path):
    samples = [sample(id=number, epoch=epoch) for number in range(3) for epoch in (1, 2)]
    samples[0]["error"] = {"message": "it broke"}
    head = header(dataset={"sample_ids": [0, 1, 2]}, config={"epochs": 2})
    run = import_run("inspect-log", str(write_eval(tmp_path / "log.eval", *samples, head=head)), tmp_path / "run")
    summary = run.summary()
    assert (run.verdict, len(run), summary.scored, summary.wall_s) == ("complete", 6, 5, 30.0)
    assert {row.split for row in run.rows} == {"heldout"}
    assert [row.score for row in run.rows if row.task == "0"] == [None, 1.0]
    assert run.trace("1", 1).run == "run"
    assert json.loads((run.path / "import.json").read_text())["kind"] == "inspect-log"
    assert "survivors" in {item.name for item in quick_health(run)}


def test_missing_samples_make_an_incomplete_run(tmp_path):
    head = header(dataset={"sample_ids": [1, 2]})
    assert (
        import_run("inspect-log", str(write_eval(tmp_path / "log.eval", sample(), head=head)), tmp_path / "r").verdict
        == "incomplete"
    )


def test_two_logs_of_one_task_can_be_compared_and_of_another_setting_not(tmp_path):
    def made(name, value, **changes):
        log = write_eval(tmp_path / f"{name}.eval", sample(scores={"match": {"value": value}}), head=HEADER | changes)
        return import_run("inspect-log", str(log), tmp_path / name)

    first, second = made("a", "C"), made("b", "I")
    assert first.compare(second).tasks == 1
    other = made("c", "C", plan={"steps": [{"solver": "chain_of_thought"}]})
    with pytest.raises(ConfigError, match="setting"):
        first.compare(other)


def test_a_run_is_written_whole_or_not_at_all(tmp_path):
    log = write_eval(tmp_path / "log.eval", sample(), sample(id=2, messages=[{"role": "root"}]))
    with pytest.raises(ConfigError, match="unknown role"):
        import_run("inspect-log", str(log), tmp_path / "run")
    with pytest.raises(ConfigError, match="has no rollouts"):
        import_run("inspect-log", str(write_eval(tmp_path / "none.eval")), tmp_path / "run")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["log.eval", "none.eval"]
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine.txt").write_text("x")
    with pytest.raises(ConfigError, match=r"mine\.txt.*--out"):
        import_run("inspect-log", str(write_eval(tmp_path / "log.eval", sample())), tmp_path / "full")


def test_an_unknown_kind_names_the_known_ones():
    assert "inspect-log" in log_readers()
    with pytest.raises(ConfigError, match=r"did you mean `inspect-log`"):
        import_run("inspect-logs", "x", "y")


def test_the_run_has_no_environment_even_where_there_is_one(tmp_path, monkeypatch):
    """An empty source would name the folder that the command runs in."""
    run = import_run("inspect-log", str(write_eval(tmp_path / "log.eval", sample())), tmp_path / "run")
    (tmp_path / "environment.toml").write_text('name = "mine"\n')
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError, match="no environment"):
        anyio.run(regrade_run, run.path)
