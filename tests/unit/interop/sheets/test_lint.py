"""Every mistake of an author is found at its cell, with a fix; golden answers are tried on their checks."""

import pytest

from builders.sheets import check_row, write_sheets
from sandlot.core.errors import ConfigError
from sandlot.interop.sheets.kinds import KINDS
from sandlot.interop.sheets.lint import lint_sheet
from sandlot.interop.sheets.template import write_template


def found(tmp_path, **sheets) -> list[tuple[str, str]]:
    """Cell and code of each finding."""
    return [(each.place, each.code) for each in lint_sheet(write_sheets(tmp_path / "a.xlsx", **sheets))]


GOOD = [["t1", "How much?", "12 kg", "quantity", "2%"], ["t2", "Which day?", "2026-03-04", "date"]]


@pytest.mark.parametrize("ending", ["xlsx", "ods", "csv"])
def test_the_template_has_no_findings(tmp_path, ending):
    write_template(tmp_path / f"new.{ending}")
    assert lint_sheet(tmp_path / f"new.{ending}") == []


def test_a_template_does_not_replace_a_file(tmp_path):
    write_template(tmp_path / "new.xlsx")
    with pytest.raises(ConfigError, match="already exists"):
        write_template(tmp_path / "new.xlsx")
    (tmp_path / "other.checks.csv").write_text("mine")
    with pytest.raises(ConfigError, match="already exists"):
        write_template(tmp_path / "other.csv")
    assert not (tmp_path / "other.csv").exists()


def test_good_tasks_have_no_findings(tmp_path):
    assert found(tmp_path, tasks=GOOD) == []


@pytest.mark.parametrize(
    ("row", "finding"),
    [
        (["", "Prompt", "1", "number"], ("Tasks!A2", "task-name")),
        (["a b", "Prompt", "1", "number"], ("Tasks!A2", "task-name")),
        (["a", "", "1", "number"], ("Tasks!B2", "no-prompt")),
        (["a", "Prompt", "1", ""], ("Tasks!D2", "no-check")),
        (["a", "Prompt", "1", "numbr"], ("Tasks!D2", "unknown-kind")),
        (["a", "Prompt", "1,5", "number"], ("Tasks!C2", "cell")),
        (["a", "Prompt", "", "number"], ("Tasks!C2", "cell")),
        (["a", "Prompt", "1", "number", "much"], ("Tasks!E2", "cell")),
        (["a", "Prompt", "1", "number", "-1"], ("Tasks!E2", "cell")),
        (["a", "Prompt", "x", "answer equals", "2"], ("Tasks!E2", "cell")),
        (["a", "Prompt", "12 flurbs", "quantity"], ("Tasks!C2", "wrong-argument")),
        (["a", "Prompt", "x", "file exists"], ("Tasks!A2", "cell")),
    ],
)
def test_a_wrong_cell_of_a_task_is_found(tmp_path, row, finding):
    assert finding in found(tmp_path, tasks=[row])


def test_two_tasks_of_one_name_are_found(tmp_path):
    assert found(tmp_path, tasks=[GOOD[0], GOOD[0]]) == [("Tasks!A3", "two-tasks")]


TASK = [["t1", "Write the report.", "done", ""]]
REPORT = [["t1", "/out/a.json", '{"total": 5, "name": "Ada"}', "", "golden"]]


@pytest.mark.parametrize(
    ("cells", "finding"),
    [
        ({"task": "t9", "kind": "number", "expected": "1"}, ("Checks!A2", "unknown-task")),
        ({"kind": ""}, ("Checks!C2", "unknown-kind")),
        ({"kind": "json field", "expected": "5", "field": "total"}, ("Checks!D2", "cell")),
        ({"kind": "json field", "expected": "5", "file": "out/a.json", "field": "total"}, ("Checks!D2", "cell")),
        ({"kind": "json field", "expected": "5", "file": "/out/../etc/a", "field": "total"}, ("Checks!D2", "cell")),
        ({"kind": "json field", "expected": "5", "file": "/out/a.json"}, ("Checks!E2", "cell")),
        ({"kind": "json field", "expected": "", "file": "/out/a.json", "field": "total"}, ("Checks!F2", "cell")),
        ({"kind": "json field", "expected": "6", "file": "/out/a.json", "field": "total"}, ("Checks!F2", "wrong-golden")),
        ({"kind": "json field", "expected": "[1", "file": "/out/a.json", "field": "total"}, ("Checks!F2", "cell")),
        ({"kind": "answer equals", "file": "/out/a.json"}, ("Checks!D2", "cell")),
        ({"kind": "file exists", "file": "/out/a.json", "points": "two"}, ("Checks!H2", "cell")),
        ({"kind": "file exists", "file": "/out/a.json", "gate": "maybe"}, ("Checks!I2", "cell")),
        ({"kind": "file exists", "file": "/out/a.json", "needs": "nobody"}, ("Checks!J2", "unknown-requires")),
        ({"kind": "file exists", "file": "/out/a.json", "options": "size=4"}, ("Checks!M2", "cell")),
        ({"kind": "file_size", "file": "/out/a.json", "options": "at_least=4", "name": "bad name"}, ("Checks!B2", "cell")),
        ({"kind": "file absent", "file": "/out/b.json"}, ("Checks!C2", "idle-points")),
        ({"kind": "answer matches", "expected": "(a+)+b"}, ("Checks!F2", "bad-pattern")),
        ({"kind": "judge"}, ("Checks!F2", "cell")),
        ({"kind": "judge", "expected": "It is short and polite."}, ("Checks!F2", "compound")),
        ({"kind": "judge", "expected": "It is short.", "options": "who=me"}, ("Checks!M2", "cell")),
        ({"kind": "judge", "expected": "It is short.", "options": "votes=99"}, ("Checks!M2", "votes")),
        ({"kind": "table equals", "file": "/out/a.csv", "expected": "a,b\n1"}, ("Checks!F2", "cell")),
        ({"kind": "quantity between", "expected": "10 kg"}, ("Checks!F2", "cell")),
        ({"kind": "table rows", "file": "/out/a.csv", "expected": "1.5"}, ("Checks!F2", "cell")),
    ],
)
def test_a_wrong_cell_of_a_check_is_found(tmp_path, cells, finding):
    row = check_row(**{"task": "t1", **cells})
    assert finding in found(tmp_path, tasks=TASK, checks=[row], files=REPORT)


def test_a_golden_solution_that_a_penalty_hits_is_found(tmp_path):
    checks = [
        check_row(task="t1", kind="file exists", file="/out/a.json", points="-2"),
        check_row(task="t1", kind="answer equals"),
    ]
    assert ("Checks!F2", "wrong-golden") in found(tmp_path, tasks=TASK, checks=checks, files=REPORT)


def test_every_finding_names_the_value_and_a_fix(tmp_path):
    path = write_sheets(tmp_path / "a.xlsx", tasks=[["t1", "Prompt", "1,5", "number"]])
    finding = lint_sheet(path)[0]
    assert (finding.value, finding.message) == ("1,5", "'1,5' is not a plain number")
    assert "1234.5" in finding.fix


def test_two_checks_of_one_name_are_found(tmp_path):
    row = check_row(task="t1", name="a", kind="file exists", file="/out/a.json")
    assert ("Checks!B3", "two-checks") in found(tmp_path, tasks=TASK, checks=[row, row], files=REPORT)


def test_an_answer_of_another_task_that_passes_is_found(tmp_path):
    tasks = [["t1", "Which city?", "Paris", "answer matches"], ["t2", "Which city?", "Rome", ""]]
    checks = [check_row(task="*", name="any", kind="answer matches", expected="[A-Z].*")]
    tasks[0][3] = ""
    assert ("Tasks!C2", "other-answer") in found(tmp_path, tasks=tasks, checks=checks)


@pytest.mark.parametrize(
    ("row", "finding"),
    [
        (["t1", "in/a.txt", "x"], ("Files!B2", "cell")),
        (["t1", "/in/a.txt", "x", "", "gift"], ("Files!E2", "cell")),
        (["t1", "/in/a.txt", "", ""], ("Files!C2", "cell")),
        (["t1", "/in/a.txt", "x", "a.txt"], ("Files!C2", "cell")),
        (["t1", "/in/a.txt", "", "../secret.txt"], ("Files!D2", "cell")),
        (["t1", "/in/a.txt", "", "/etc/passwd"], ("Files!D2", "cell")),
        (["t1", "/in/a.txt", "", "missing.txt"], ("Files!D2", "cell")),
        (["t1", "/in/a.txt", "", "link.txt"], ("Files!D2", "cell")),
        (["t1", "/in/a.txt", "", "folder/secret.txt"], ("Files!D2", "cell")),
        (["t1", "/out/a.bin", "", "binary.bin", "golden"], ("Files!D2", "cell")),
        (["t7", "/in/a.txt", "x"], ("Files!A2", "unknown-task")),
    ],
)
def test_a_wrong_cell_of_a_file_is_found(tmp_path, row, finding):
    folder = tmp_path / "a-files"
    folder.mkdir()
    (tmp_path / "secret.txt").write_text("secret")
    (folder / "link.txt").symlink_to(tmp_path / "secret.txt")
    (folder / "folder").symlink_to(tmp_path)
    (folder / "binary.bin").write_bytes(b"\xff\x00")
    assert finding in found(tmp_path, tasks=[["t1", "Prompt", "x", "answer equals"]], files=[row])


def test_unknown_columns_and_settings_are_named(tmp_path):
    (tmp_path / "a.csv").write_text("Task,Promt,Prompt,Answer,Check\na,x,Say yes.,yes,answer equals\n")
    (tmp_path / "a.settings.csv").write_text("Setting,Value\ncolour,red\nturns,many\n")
    assert [(each.place, each.code, each.fix) for each in lint_sheet(tmp_path / "a.csv")] == [
        ("Settings!B3", "setting", "write 1 to 1000"),
        ("Tasks!B1", "unknown-column", "did you mean `Prompt`?"),
        ("Settings!A2", "setting", "settings: name, description, system, image, turns"),
    ]


def test_a_file_without_a_sheet_of_tasks_is_refused(tmp_path):
    path = write_sheets(tmp_path / "a.xlsx", checks=[])
    with pytest.raises(ConfigError, match="no sheet `Tasks`"):
        lint_sheet(path)


KIND_CELLS = {
    "answer equals": ({"expected": "yes"}, "yes", {}),
    "answer matches": ({"expected": "(?i)yes"}, "yes", {}),
    "number": ({"expected": "12.5", "tolerance": "2%"}, "12.6", {}),
    "quantity": ({"expected": "10 m/s", "tolerance": "1%"}, "36 km/h", {}),
    "quantity between": ({"expected": "1 kg..2 kg"}, "1500 g", {}),
    "date": ({"expected": "2026-03-04"}, "4 March 2026", {}),
    "duration": ({"expected": "90 min", "tolerance": "1"}, "1 h 30 min", {}),
    "formula": ({"expected": "(x+1)^2"}, "x^2+2x+1", {}),
    "choice": ({"expected": "B"}, "(B)", {}),
    "states facts": ({"expected": "42.50\n3 May|May 3"}, "We paid 42.50 on May 3.", {}),
    "similar text": ({"expected": "the cat sat"}, "the cat sat", {}),
    "word count": ({"expected": "2..5"}, "three words here", {}),
    "file exists": ({"file": "/out/a.txt"}, "x", {"/out/a.txt": "hello"}),
    "file absent": ({"file": "/out/b.txt"}, "x", {}),
    "file equals": ({"file": "/out/a.txt", "expected": "hello"}, "x", {"/out/a.txt": "hello"}),
    "file contains": ({"file": "/out/a.txt", "expected": "ell"}, "x", {"/out/a.txt": "hello"}),
    "file unchanged": ({"file": "/in/a.txt"}, "x", {}),
    "json field": (
        {"file": "/out/a.json", "field": "a.0", "expected": "5", "tolerance": "0.1"},
        "x",
        {"/out/a.json": '{"a": [5]}'},
    ),
    "json equals": ({"file": "/out/a.json", "expected": '{"a": [5]}'}, "x", {"/out/a.json": '{"a": [5]}'}),
    "table equals": ({"file": "/out/a.csv", "expected": "k,v\na,1", "field": "k"}, "x", {"/out/a.csv": "k,v\na,1"}),
    "table share": ({"file": "/out/a.csv", "expected": "k,v\na,1"}, "x", {"/out/a.csv": "k,v\na,1"}),
    "table total": ({"file": "/out/a.csv", "expected": "3", "field": "v"}, "x", {"/out/a.csv": "k,v\na,1\nb,2"}),
    "table rows": ({"file": "/out/a.csv", "expected": "2"}, "x", {"/out/a.csv": "k,v\na,1\nb,2"}),
    "table sorted": ({"file": "/out/a.csv", "field": "v"}, "x", {"/out/a.csv": "k,v\na,1\nb,2"}),
    "table unique": ({"file": "/out/a.csv", "field": "k, v"}, "x", {"/out/a.csv": "k,v\na,1\nb,2"}),
    "cell": ({"file": "/out/a.xlsx", "field": "Plan!B9", "expected": "5"}, "x", {}),
    "judge": ({"expected": "The reply is polite.", "passes": "Thank you.", "fails": "Go away."}, "Thank you.", {}),
}


def test_every_kind_is_tried_here():
    assert list(KIND_CELLS) == list(KINDS)


@pytest.mark.parametrize("kind", KINDS)
def test_a_right_golden_solution_meets_each_kind(tmp_path, kind):
    cells, answer, files = KIND_CELLS[kind]
    rows = [["t1", path, text, "", "golden"] for path, text in files.items()] + [["t1", "/in/a.txt", "given", "", "given"]]
    checks = [check_row(task="t1", kind=kind, **cells), check_row(task="t1", name="said", kind="answer equals")]
    findings = found(tmp_path, tasks=[["t1", "Do it.", answer]], checks=checks, files=rows)
    assert [each for each in findings if each[1] != "idle-points"] == []


@pytest.mark.parametrize(
    "kind", [kind for kind in KINDS if kind not in {"judge", "cell", "file absent", "file unchanged", "word count"}]
)
def test_a_golden_solution_that_does_nothing_is_found_by_each_kind(tmp_path, kind):
    cells = KIND_CELLS[kind][0]
    checks = [check_row(task="t1", kind=kind, **cells)]
    assert ("Checks!F2", "wrong-golden") in found(tmp_path, tasks=[["t1", "Do it.", "I will not."]], checks=checks)
