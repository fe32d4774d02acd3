import json
import sys
import textwrap

import msgspec
import pytest

import sandlot
from sandlot.core.errors import ConfigError
from sandlot.env.importing import import_environment, imported_folder, importers

IMPORTER = """
from pathlib import Path

from sandlot import PythonCheck, Rubric, Task
from sandlot.core.errors import ConfigError
from sandlot.interop.folder_writer import EnvironmentDraft, write_environment
from sandlot.interop.untrusted import read_rows, source_digest
from sandlot.ports import ImportedTask, ImportReport, LeftOut


class Sums:
    kind = "sums"

    def digest(self, source):
        return source_digest(source)

    def write(self, source, folder, *, limit):
        print("reading", source)
        rows = list(read_rows(Path(source)))
        good = [row for row in rows if "sum" in row][:limit]
        tasks = [Task(row["id"], prompt=row["prompt"], key={"sum": row["sum"]}) for row in good]
        check = PythonCheck(id="right", ref="checks:right")
        code = {
            "checks.py": "def right(evidence, task):\\n    return evidence.answer == task.key['sum']\\n",
            "solution.py": "async def solve(agent, task):\\n    await agent.say(task.key['sum'])\\n",
        }
        rubrics = {"default": Rubric(checks=(check,))}
        write_environment(folder, EnvironmentDraft(name="sums", tasks=tasks, rubrics=rubrics, code=code))
        (folder / "written").mkdir()
        if any(row.get("explode") for row in rows):
            raise ValueError("exploded")
        return ImportReport(
            kind=self.kind,
            source=source,
            tasks=tuple(ImportedTask(id=row["id"], origin=f"{source}:{n}", licence="MIT") for n, row in enumerate(good, 1)),
            left_out=tuple(LeftOut(what=row["id"], why="no sum") for row in rows if "sum" not in row),
        )
"""
ROWS = [{"id": "one", "prompt": "1+1?", "sum": "2"}, {"id": "two", "prompt": "2+2?", "sum": "4"}, {"id": "odd", "prompt": "?"}]


@pytest.fixture
def kind(tmp_path, monkeypatch):
    """An importer as another package brings it."""
    site = tmp_path / "site"
    info = site / "sums_importer-1.0.dist-info"
    info.mkdir(parents=True)
    (site / "sums_importer.py").write_text(textwrap.dedent(IMPORTER))
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: sums-importer\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[sandlot.importers]\nsums = sums_importer:Sums\nbroken = sums_importer:ROWS\n")
    monkeypatch.syspath_prepend(str(site))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    yield "sums"
    sys.modules.pop("sums_importer", None)


@pytest.fixture
def rows(tmp_path):
    file = tmp_path / "rows.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    return file


def test_an_import_is_an_ordinary_environment_with_a_report(kind, rows, tmp_path):
    report = import_environment(kind, str(rows), tmp_path / "out")
    assert [task.id for task in report.tasks] == ["one", "two"]
    assert [each.what for each in report.left_out] == ["odd"]
    written = msgspec.json.decode((tmp_path / "out" / "import.json").read_bytes(), type=type(report))
    assert written == report
    run = sandlot.run(str(tmp_path / "out"), "scripted:golden", runs=tmp_path / "runs")
    assert run.summary().pass_rate.value == 1.0


def test_what_an_importer_prints_is_not_in_the_result_on_stdout(sandlot, kind, rows, tmp_path):
    words = ("import", kind, rows, "--out", tmp_path / "out", "--no-audit", "--json")
    done = sandlot(*words, cwd=tmp_path, PYTHONPATH=str(tmp_path / "site"))
    assert done.code == 0, done.err
    assert done.json["import"]["kind"] == "sums"
    assert f"reading {rows}" in done.err


def test_a_limit_is_kept(kind, rows, tmp_path):
    assert len(import_environment(kind, str(rows), tmp_path / "out", limit=1).tasks) == 1
    with pytest.raises(ConfigError, match="limit of 0"):
        import_environment(kind, str(rows), tmp_path / "other", limit=0)


def test_a_folder_with_something_in_it_is_refused_and_an_empty_one_is_not(kind, rows, tmp_path):
    full, empty = tmp_path / "full", tmp_path / "empty"
    full.mkdir()
    (full / "notes.txt").write_text("mine")
    empty.mkdir()
    with pytest.raises(ConfigError, match=r"notes\.txt"):
        import_environment(kind, str(rows), full)
    assert [path.name for path in full.iterdir()] == ["notes.txt"]
    import_environment(kind, str(rows), empty)
    assert (empty / "environment.toml").is_file()


def test_an_import_that_fails_leaves_nothing(kind, rows, tmp_path):
    rows.write_text(rows.read_text() + json.dumps({"id": "bad", "explode": True}) + "\n")
    with pytest.raises(ConfigError, match="exploded"):
        import_environment(kind, str(rows), tmp_path / "place" / "out")
    assert list((tmp_path / "place").iterdir()) == []


def test_a_source_without_a_task_is_an_error_that_says_why(kind, rows, tmp_path):
    rows.write_text(json.dumps(ROWS[2]) + "\n")
    with pytest.raises(ConfigError, match="no task that can be imported: odd: no sum"):
        import_environment(kind, str(rows), tmp_path / "out")


def test_an_unknown_kind_is_an_error_with_the_known_ones(kind, tmp_path):
    with pytest.raises(ConfigError, match="did you mean `sums`"):
        import_environment("sum", "x", tmp_path / "out")
    with pytest.raises(ConfigError, match="broken"):
        import_environment("broken", "x", tmp_path / "out")
    assert "sums" in importers()


def test_a_misspelled_kind_of_source_is_an_error_with_the_right_one(kind):
    with pytest.raises(ConfigError, match=r"did you mean `sums:rows\.jsonl`"):
        sandlot.load("sum:rows.jsonl")


def test_the_command_names_kinds_of_logs_too_and_what_is_missing(sandlot, kind, tmp_path):
    place = {"cwd": tmp_path, "PYTHONPATH": str(tmp_path / "site")}
    unknown = sandlot("import", "inspect-logs", "x.eval", **place)
    assert (unknown.code, "did you mean `inspect-log`" in unknown.err) == (2, True)
    missing = sandlot("import", "sums", **place)
    assert (missing.code, "sandlot import sums SOURCE" in " ".join(missing.err.split())) == (2, True)
    assert "sums" in sandlot("import", "list", **place).out


def test_a_source_can_stand_for_an_environment_and_is_imported_once(kind, rows, tmp_path):
    env = sandlot.load(f"sums:{rows}")
    assert [task.id for task in sandlot.tasks_of(env)] == ["one", "two"]
    first = imported_folder(f"sums:{rows}")
    made = (first / "environment.toml").stat().st_mtime_ns
    assert imported_folder(f"sums:{rows}") == first
    assert (first / "environment.toml").stat().st_mtime_ns == made
    rows.write_text(json.dumps(ROWS[0]) + "\n")
    assert imported_folder(f"sums:{rows}") != first
    run = sandlot.run(f"sums:{rows}", "scripted:golden", runs=tmp_path / "runs")
    assert run.summary().pass_rate.value == 1.0


def test_a_missing_source_is_an_error(kind, tmp_path):
    with pytest.raises(ConfigError, match="there is no file or folder"):
        sandlot.load(f"sums:{tmp_path}/none.jsonl")


def test_a_name_with_another_prefix_is_no_source():
    assert imported_folder("nothing-of-that-kind:x") is None
    assert imported_folder("arithmetic") is None
