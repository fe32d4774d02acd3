"""A spreadsheet becomes an ordinary environment, and findings go back into a copy of it."""

import pytest

import sandlot
from builders.sheets import check_row, write_sheets
from sandlot.core.errors import ConfigError
from sandlot.interop.sheets.audit import audit_sheet, write_findings
from sandlot.interop.sheets.grid import read_sheet_file
from sandlot.interop.sheets.importer import SheetImporter
from sandlot.interop.sheets.lint import lint_tasks
from sandlot.interop.sheets.preview import preview_tasks
from sandlot.interop.sheets.tasks import read_tasks
from sandlot.interop.sheets.template import write_template

TASKS = [["sum", "Add 2 and 3.", "5", "number"], ["report", "Write the total.", "done", ""]]
CHECKS = [
    check_row(task="report", name="total", kind="json field", file="/out/a.json", field="total", expected="5", points="3"),
    check_row(task="report", name="kept", kind="file unchanged", file="/in/a.csv", needs="total"),
]
FILES = [
    ["report", "/in/a.csv", "n\n5"],
    ["report", "/out/a.json", '{"total": 5}', "", "golden"],
    ["report", "/in/logo.png", "", "logo.png"],
]


def sheet(tmp_path, ending="xlsx"):
    path = write_sheets(
        tmp_path / f"work.{ending}", tasks=TASKS, checks=CHECKS, files=FILES, settings=[["name", "My work"], ["turns", "7"]]
    )
    (tmp_path / "work-files").mkdir(exist_ok=True)
    (tmp_path / "work-files" / "logo.png").write_bytes(b"\x89PNG\xff")
    return path


@pytest.mark.parametrize("ending", ["xlsx", "ods", "csv"])
def test_an_environment_of_a_spreadsheet_runs(tmp_path, ending):
    report = sandlot.import_environment("sheet", str(sheet(tmp_path, ending)), tmp_path / "env")
    assert [(task.id, task.origin) for task in report.tasks] == [("sum", "Tasks, row 2"), ("report", "Tasks, row 3")]
    env = sandlot.load(tmp_path / "env")
    assert (env.name, env.limits.turns, [tool.spec.name for tool in env.tools]) == (
        "My-work",
        7,
        ["list_files", "read_file", "write_file"],
    )
    run = sandlot.run(tmp_path / "env", "scripted:golden", runs=tmp_path / "golden")
    assert run.summary().score.value == 1.0
    idle = sandlot.run(tmp_path / "env", "scripted:noop", runs=tmp_path / "idle")
    assert idle.summary().score.value == 0.0
    files = idle.trace("report").evidence.files
    assert files["/in/logo.png"].size == 5


def test_a_question_without_files_has_no_tools_and_one_turn(tmp_path):
    path = write_sheets(tmp_path / "a.xlsx", tasks=[["t", "Say yes.", "yes", "answer equals"]])
    sandlot.import_environment("sheet", str(path), tmp_path / "env")
    env = sandlot.load(tmp_path / "env")
    assert (list(env.tools), env.limits.turns) == ([], 1)


def test_checks_of_all_tasks_use_each_golden_answer(tmp_path):
    tasks = [["a", "One?", "1"], ["b", "Two?", "2"]]
    path = write_sheets(tmp_path / "a.xlsx", tasks=tasks, checks=[check_row(task="*", kind="number", tolerance="10%")])
    sandlot.import_environment("sheet", str(path), tmp_path / "env")
    assert [file.name for file in (tmp_path / "env" / "rubrics").iterdir()] == ["default.json"]
    keys = {task.id: task.key["expected"]["number"] for task in sandlot.tasks_of(sandlot.load(tmp_path / "env"))}
    assert keys == {"a": {"value": 1, "tolerance": 0.1}, "b": {"value": 2, "tolerance": 0.2}}
    assert sandlot.run(tmp_path / "env", "scripted:golden", runs=tmp_path / "run").summary().score.value == 1.0


def test_a_spreadsheet_with_errors_is_not_imported(tmp_path):
    path = write_sheets(tmp_path / "a.xlsx", tasks=[["t", "Add.", "5,0", "number"]])
    with pytest.raises(ConfigError, match=r"1 errors: Tasks!C2: '5,0' is not a plain number"):
        sandlot.import_environment("sheet", str(path), tmp_path / "env")
    assert not (tmp_path / "env").exists()


def test_names_of_a_hostile_sheet_stay_in_the_folder(tmp_path):
    settings = [["name", "../../evil\n[limits]"], ["description", 'x"\nimage = "host'], ["system", "\\"]]
    path = write_sheets(tmp_path / "a.xlsx", tasks=[["t", "Say '''\n\"\"\".", "yes", "answer equals"]], settings=settings)
    sandlot.import_environment("sheet", str(path), tmp_path / "env")
    env = sandlot.load(tmp_path / "env")
    assert (env.name, env.image, env.description) == ("evil-limits", None, 'x"\nimage = "host')
    assert sorted(file.name for file in tmp_path.iterdir()) == ["a.xlsx", "env"]


def test_the_digest_changes_with_the_sheet_and_with_its_files(tmp_path):
    path = sheet(tmp_path, "csv")
    first = SheetImporter().digest(str(path))
    assert SheetImporter().digest(str(path)) == first
    (tmp_path / "work-files" / "logo.png").write_bytes(b"other")
    second = SheetImporter().digest(str(path))
    (tmp_path / "work.checks.csv").write_text("Kind\n")
    assert len({first, second, SheetImporter().digest(str(path))}) == 3


def test_a_preview_shows_what_agent_and_grader_see(tmp_path):
    seen = preview_tasks(read_tasks(read_sheet_file(sheet(tmp_path))), "report")[0]
    assert (seen.prompt, seen.tools, seen.given) == (
        "Write the total.",
        ("list_files", "read_file", "write_file"),
        {"/in/a.csv": 4, "/in/logo.png": 5},
    )
    assert [(check.id, check.points, check.golden) for check in seen.checks] == [("total", 3.0, "met"), ("kept", 1.0, "met")]
    with pytest.raises(ConfigError, match="no task `x`"):
        preview_tasks(read_tasks(read_sheet_file(sheet(tmp_path))), "x")


@pytest.mark.parametrize("ending", ["xlsx", "ods", "csv"])
def test_findings_stand_beside_their_rows_in_a_copy(tmp_path, ending):
    tasks = [["sum", "Add.", "6", ""], ["t2", "Say yes.", "yes", "answer equals"]]
    checks = [check_row(task="sum", kind="number", expected="5")]
    path = write_sheets(tmp_path / f"a.{ending}", tasks=tasks, checks=checks)
    found = audit_sheet(path, copy=tmp_path / f"copy.{ending}")
    assert (found.verdict, found.exit_code) == ("not played", 1)
    grid = read_sheet_file(tmp_path / f"copy.{ending}").grid("Checks")
    assert grid.text(1, grid.width) == "Findings"
    assert grid.text(2, grid.width).startswith("F2, error: the golden solution of `sum` does not meet this check")
    assert read_sheet_file(path).grid("Checks").width < grid.width  # the author's file is as it was
    again = read_tasks(read_sheet_file(tmp_path / f"copy.{ending}"))
    assert [each.place for each in lint_tasks(again)] == ["Checks!F2"]  # the column of findings is not read


def test_a_corrected_copy_loses_its_old_findings(tmp_path):
    checks = [check_row(task="t", kind="number", expected="5")]
    path = write_sheets(tmp_path / "a.xlsx", tasks=[["t", "Add.", "6", ""]], checks=checks)
    audit_sheet(path, copy=tmp_path / "b.xlsx")
    copied = read_tasks(read_sheet_file(tmp_path / "b.xlsx"))
    write_findings(copied, [], tmp_path / "c.xlsx")
    grid = read_sheet_file(tmp_path / "c.xlsx").grid("Checks")
    assert grid.text(1, 14) == "Findings"
    assert grid.text(2, 14) == ""


def test_a_copy_never_replaces_a_file_or_changes_the_format(tmp_path):
    write_template(tmp_path / "a.xlsx")
    with pytest.raises(ConfigError, match="already exists"):
        audit_sheet(tmp_path / "a.xlsx", copy=tmp_path / "a.xlsx")
    with pytest.raises(ConfigError, match="another format"):
        audit_sheet(tmp_path / "a.xlsx", copy=tmp_path / "b.csv")


def test_a_task_called_default_does_not_replace_the_rubric_of_another(tmp_path):
    tasks = [["hard", "How much?", "42", "number"], ["default", "Say yes.", "yes", "answer equals"]]
    path = write_sheets(tmp_path / "a.xlsx", tasks=tasks)
    sandlot.import_environment("sheet", str(path), tmp_path / "env")
    env = sandlot.load(tmp_path / "env")
    assert {task.id: task.rubric for task in sandlot.tasks_of(env)} == {"hard": "default", "default": "default-checks"}
    assert sandlot.run(env, "scripted:golden", runs=tmp_path / "runs").summary().pass_rate.value == 1.0
