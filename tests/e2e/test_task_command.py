"""`sandlot task` and `sandlot import sheet`, as a domain expert uses them."""

import pytest

from builders.sheets import check_row, write_sheets
from drive.command_line import refused
from sandlot.interop.sheets.grid import read_sheet_file


@pytest.mark.system
@pytest.mark.timeout(300)
def test_from_a_template_to_an_audited_environment(sandlot, tmp_path):
    assert sandlot("task", "new", "work.xlsx", cwd=tmp_path).out == "work.xlsx\n"
    assert sandlot("task", "lint", "work.xlsx", cwd=tmp_path).out == "work.xlsx: no errors, 0 other findings\n"
    preview = sandlot("task", "preview", "work.xlsx", "--task", "trip-total", cwd=tmp_path)
    assert "golden file /out/total.json" in preview.out
    assert "points possible: 4" in preview.out
    assert "boiling-point" not in preview.out
    assert sandlot("task", "preview", "work.xlsx", "--json", cwd=tmp_path).json[0]["id"] == "boiling-point"
    imported = sandlot("import", "sheet", "work.xlsx", "--out", "env", "--no-audit", "--json", cwd=tmp_path)
    assert [task["id"] for task in imported.json["import"]["tasks"]] == ["boiling-point", "leap-year", "trip-total"]
    assert sandlot("run", "sheet:work.xlsx", "--model", "scripted:golden", "--json", cwd=tmp_path).json["score"]["mean"] == 1.0
    audited = sandlot("task", "audit", "work.xlsx", "--out", "copy.xlsx", "--limit", 1, "--json", cwd=tmp_path)
    # One task of three: the points of the other two were not attacked.
    assert (audited.code, audited.json["verdict"], audited.json["findings"]) == (3, "INCOMPLETE", []), audited
    assert (tmp_path / "copy.xlsx").is_file()


def test_findings_name_the_cell_and_set_the_exit_code(sandlot, tmp_path):
    checks = [check_row(task="sum", kind="number", expected="5")]
    write_sheets(tmp_path / "a.ods", tasks=[["sum", "Add.", "6"], ["b", "Say.", "x,y", "number"]], checks=checks)
    done = sandlot("task", "lint", "a.ods", cwd=tmp_path)
    assert done.code == 1
    assert "Tasks!C3 'x,y': 'x,y' is not a plain number" in done.out
    assert "write it like 1234.5" in done.out
    found = sandlot("task", "lint", "a.ods", "--json", cwd=tmp_path).json
    assert [(each["place"], each["severity"], each["value"]) for each in found] == [("Tasks!C3", "error", "x,y")]


@pytest.mark.system
@pytest.mark.timeout(300)
def test_a_weak_check_is_written_back_beside_its_cell(sandlot, tmp_path):
    tasks = [[f"t{number}", f"What is {number} plus {number}?", str(2 * number)] for number in range(3, 5)]
    checks = [check_row(task="*", name="near", kind="number", tolerance="50%")]
    write_sheets(tmp_path / "a.xlsx", tasks=tasks, checks=checks)
    done = sandlot("task", "audit", "a.xlsx", "--out", "b.xlsx", cwd=tmp_path)
    assert done.code == 1, done
    grids = read_sheet_file(tmp_path / "b.xlsx").grids
    said = " ".join(cell.text for grid in grids for (_, column), cell in grid.cells.items() if column == grid.width)
    assert "gets full marks" in said


def test_terminal_escapes_of_a_sheet_do_not_reach_the_terminal(sandlot, tmp_path):
    (tmp_path / "a.csv").write_text("Task,Prompt,Answer,Check\n\x1b]0;evil\x07,p,1,number\nb,p,\x1b[31m1,number\n")
    done = sandlot("task", "lint", "a.csv", cwd=tmp_path)
    assert done.code == 1
    assert "\x1b" not in done.out
    assert "\x1b" not in sandlot("task", "preview", "a.csv", cwd=tmp_path).out


def test_a_wrong_file_is_one_sentence(sandlot, tmp_path):
    (tmp_path / "a.xlsx").write_bytes(b"nonsense")
    assert "is not an office file" in refused(sandlot("task", "lint", "a.xlsx", cwd=tmp_path))
    assert "cannot be read" in refused(sandlot("task", "lint", "missing.xlsx", cwd=tmp_path))


def test_a_draft_states_its_mutation_score(sandlot, tmp_path):
    for name, total in (("before", 0), ("after", 42)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "a.json").write_text(f'{{"total": {total}}}\n')
    done = sandlot("task", "draft", "before", "after", "--out", "a.xlsx", cwd=tmp_path)
    assert done.code == 0, done
    assert "task `after` with 1 checks\nmutation score: 3 of 3 wrong solutions noticed (100%)" in done.out
    assert sandlot("task", "lint", "a.xlsx", cwd=tmp_path).code == 0
