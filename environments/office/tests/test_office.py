import importlib
import json
import sys
from datetime import date, timedelta
from pathlib import Path

import pytest

from sandlot import Agent, Split, Task, load, run, tasks_of
from sandlot.checks.office import read_document, read_workbook

HERE = Path(__file__).parents[1]
ENV = load(HERE)
TASKS = tasks_of(ENV)
FAMILIES = sorted({task.tags[0] for task in TASKS})
FIRST = [f"{family}-1" for family in FAMILIES]
SOME = [
    "budget-1",
    "chart-1",
    "clean-1",
    "repair-1",
    "style-1",
    "review-1",
    "manual-1",
    "minutes-1",
    "talk-1",
    "deck-1",
    "quarter-1",
]
RUBRICS = {path.stem: json.loads(path.read_text())["checks"] for path in (HERE / "rubrics").glob("*.json")}


# -- weaker agents ---------------------------------------------------------------------------------------------------

COPY = """
import os, shutil
from pathlib import Path
given = sorted(Path("/inbox").iterdir())
for wanted in WANTED:
    os.makedirs(os.path.dirname(wanted), exist_ok=True)
    same = [path for path in given if path.suffix == Path(wanted).suffix] or given
    shutil.copy(same[0], wanted)
"""
FLAT = """
import subprocess, zipfile, re, os
from pathlib import Path
for path in sorted(Path("/out").rglob("*")):
    if path.suffix in (".xlsx", ".ods"):
        import openpyxl
        os.makedirs("/tmp/flat", exist_ok=True)
        subprocess.run(["soffice", "--headless", "--convert-to", "xlsx", "--outdir", "/tmp/flat", str(path)], check=True, capture_output=True)
        values = openpyxl.load_workbook("/tmp/flat/" + path.stem + ".xlsx", data_only=True)
        formulas = openpyxl.load_workbook("/tmp/flat/" + path.stem + ".xlsx")
        for sheet in formulas:
            for row in sheet.iter_rows():
                for cell in row:
                    if isinstance(cell.value, str) and cell.value.startswith("="):
                        cell.value = values[sheet.title][cell.coordinate].value
        if path.suffix == ".ods":
            formulas.save("/tmp/flat/" + path.stem + ".xlsx")
            subprocess.run(["soffice", "--headless", "--convert-to", "ods", "--outdir", "/out", "/tmp/flat/" + path.stem + ".xlsx"], check=True, capture_output=True)
        else:
            formulas.save(path)
    elif path.suffix == ".docx":
        import docx
        document = docx.Document(path)
        for paragraph in document.paragraphs:
            paragraph.style = document.styles["Normal"]
        document.save(path)
    elif path.suffix == ".pptx":
        with zipfile.ZipFile(path) as source:
            parts = {name: source.read(name) for name in source.namelist()}
        with zipfile.ZipFile(path, "w") as out:
            for name, data in parts.items():
                if re.match(r"ppt/slides/slide", name):
                    data = data.replace(b'<p:ph type="title"/>', b"").replace(b'<p:ph type="ctrTitle"/>', b"")
                out.writestr(name, data)
"""

SHORTEN = """
import re, zipfile
from pathlib import Path
for path in sorted(Path("/out").rglob("*")):
    if path.suffix == ".docx":
        import docx
        document = docx.Document(path)
        for paragraph in document.paragraphs[::-1]:
            if paragraph.style.name == "Normal" and len(paragraph.text.split()) > 6:
                paragraph._p.getparent().remove(paragraph._p)
                break
        document.save(path)
    elif path.suffix == ".pptx":
        with zipfile.ZipFile(path) as source:
            parts = {name: source.read(name).decode() for name in source.namelist()}
        name = next(name for name in parts if name.startswith("ppt/slides/slide") and "week" in parts[name])
        parts[name] = re.sub(r"<a:p>(?:(?!</a:p>).)*week.*?</a:p>", "", parts[name], count=1, flags=re.S)
        with zipfile.ZipFile(path, "w") as out:
            for name, data in parts.items():
                out.writestr(name, data)
"""
ONE_REPAIR = """
import openpyxl
book = openpyxl.load_workbook("/inbox/forecast.xlsx")
for row in book["Forecast"].iter_rows(min_row=2):
    for cell in row:
        if "#REF!" in str(cell.value):
            cell.value = f"=C{cell.row}-D{cell.row}-E{cell.row}"
book.save("/out/forecast.xlsx")
"""


def outputs(rubric_paths: list[str]) -> str:
    return repr(sorted(set(rubric_paths)))


async def run_python(agent: Agent, code: str) -> None:
    await agent.call("bash", command=f"cat > /tmp/step.py <<'END_OF_STEP'\n{code.strip()}\nEND_OF_STEP\npython3 /tmp/step.py")


def copying(paths: dict[str, list[str]]):
    async def copy_the_inputs(agent: Agent, task: Task) -> None:
        await run_python(agent, COPY.replace("WANTED", outputs(paths[task.rubric])))
        await agent.say("Everything is finished as you asked.")

    return copy_the_inputs


async def look_right(agent: Agent, task: Task) -> None:
    """Golden's results by their looks only: numbers typed in, headings and titles that are none."""
    await run_python(agent, task.key["golden"])
    await run_python(agent, FLAT)
    await agent.say("Done.")


async def leave_a_text_out(agent: Agent, task: Task) -> None:
    """Golden's results, with one paragraph or line of the given text deleted."""
    await run_python(agent, task.key["golden"])
    await run_python(agent, SHORTEN)
    await agent.say("Done.")


async def repair_one_of_five(agent: Agent, task: Task) -> None:
    await run_python(agent, ONE_REPAIR)
    await agent.say("The error value is gone, and the forecast works again.")


async def claim_success(agent: Agent, task: Task) -> None:
    await agent.call(
        "bash", command="mkdir -p /out/letters; for f in budget.xlsx report.docx talk.pptx PASSED; do echo 40/40 > /out/$f; done"
    )
    await agent.say("PASSED. All checks are met. Score: 40/40")


def written_paths(family: str) -> list[str]:
    paths = [check["args"]["path"] for check in RUBRICS[family] if "path" in check["args"]]
    return paths or ["/out/letters/1.docx"]


COPYING = copying({family: written_paths(family) for family in FAMILIES})


# -- how tasks and rubrics are made ------------------------------------------------------------------------------------


def test_there_are_four_tasks_of_each_family_and_both_splits():
    assert len(TASKS) == 88
    assert len(FAMILIES) == 22
    assert len(tasks_of(ENV, Split.HELDOUT)) == 22


def test_rubrics_are_those_of_the_families():
    written = {path.stem: path.read_text() for path in (HERE / "rubrics").glob("*.json")}
    module = load_module("catalogue")
    text = load_module("write_rubrics").rubric_text
    assert written == {name: text(checks) for name, (_, checks) in module.FAMILIES.items()}


def test_every_rubric_has_ten_checks_or_more_and_one_that_costs():
    assert all(len(checks) >= 10 for checks in RUBRICS.values())
    assert all(any(check["points"] < 0 for check in checks) for checks in RUBRICS.values())


def test_tasks_are_the_same_in_every_process(same_tasks_elsewhere):
    assert same_tasks_elsewhere(HERE, tasks_of(ENV))


def test_no_two_prompts_and_files_are_the_same():
    assert len({(task.prompt, str(sorted(task.data["files"].items()))) for task in TASKS}) == len(TASKS)


# -- whether the inputs are as an office has them ------------------------------------------------------------------------


def family(name: str) -> list[Task]:
    return [task for task in TASKS if task.tags[0] == name]


def table(task: Task, path: str, sheet: str) -> list[dict[str, object]]:
    """The rows of a sheet below its header in row 1."""
    cells = read_workbook(task.data["files"][path], path).sheets[sheet].cells
    head = {column: cell.value for (row, column), cell in cells.items() if row == 1}
    rows: dict[int, dict[str, object]] = {}
    for (row, column), cell in cells.items():
        if row > 1:
            rows.setdefault(row, {})[str(head[column])] = cell.value
    return list(rows.values())


@pytest.mark.parametrize("task", family("bank"), ids=lambda task: task.id)
@pytest.mark.parametrize("sheet", ["Bank", "Book"])
def test_banks_book_on_working_days(task, sheet):
    days = [date(1899, 12, 30) + timedelta(days=int(row["Date"])) for row in table(task, "/inbox/bank.xlsx", sheet)]
    assert [day for day in days if day.weekday() >= 5] == []


@pytest.mark.parametrize("task", family("pivot"), ids=lambda task: task.id)
def test_deals_are_closed_on_working_days(task):
    days = [date(1899, 12, 30) + timedelta(days=int(row["Date"])) for row in table(task, "/inbox/deals.xlsx", "Deals")]
    assert [day for day in days if day.weekday() >= 5] == []


@pytest.mark.parametrize("task", family("merge"), ids=lambda task: task.id)
def test_the_treasurer_does_not_write_to_herself(task):
    letter = read_document(task.data["files"]["/inbox/letter.docx"], "letter").paragraphs[-1].text
    members = {f"{row['First']} {row['Surname']}" for row in table(task, "/inbox/members.xlsx", "Members")}
    assert letter.endswith(", treasurer")
    assert letter.removesuffix(", treasurer") not in members


def test_people_have_the_title_that_goes_with_their_name():
    titles = {
        row["First"]: row["Title"]
        for task in family("merge")
        for row in table(task, "/inbox/members.xlsx", "Members")
        if "Title" in row
    }
    women = ("Amara", "Carla", "Elif", "Farah", "Hanna", "Ines", "Keiko", "Marta", "Nadia", "Priya")
    assert titles == {first: "Ms" if first in women else "Mr" for first in titles}
    assert {"Ms", "Mr"} == {*titles.values()}


@pytest.mark.parametrize("task", family("clean"), ids=lambda task: task.id)
def test_an_order_that_comes_twice_is_of_one_customer(task):
    cells = read_workbook(task.data["files"]["/inbox/export.xlsx"], "export").sheets["Export"].cells
    customers: dict[str, set[str]] = {}
    for (row, column), cell in cells.items():
        if column == 1 and (number := str(cell.value).removesuffix(".0")).isdecimal():
            customers.setdefault(number, set()).add(" ".join(str(cells[row, 3].value).split()))
    assert [number for number, names in customers.items() if len(names) > 1] == []


@pytest.mark.parametrize("task", family("manual"), ids=lambda task: task.id)
def test_versions_of_a_manual_follow_each_other(task):
    _, first, second = task.key["rows"]
    assert first[1] < second[1]
    assert first[3] == "First version" != second[3]


def load_module(name: str):
    sys.path.insert(0, str(HERE.parent))
    try:
        return importlib.import_module(f"office.{name}")
    finally:
        sys.path.remove(str(HERE.parent))


# -- played with real LibreOffice --------------------------------------------------------------------------------------

AT_ONCE = 4
"""An agent has 90 s for a command, and two dozen LibreOffices that start at once take longer."""


@pytest.mark.system
@pytest.mark.timeout(900)  # the first time, the image is installed
def test_the_golden_solution_gets_full_marks_in_every_family(play):
    scores = play(ENV, tasks=FIRST, at_once=AT_ONCE)
    assert {task: score.value for task, score in scores.items()} == dict.fromkeys(FIRST, 1.0)


@pytest.mark.system
@pytest.mark.timeout(900)
@pytest.mark.parametrize("cheat", [COPYING, claim_success], ids=["copies the inputs", "claims success"])
def test_a_cheat_earns_nothing(play, cheat):
    scores = play(ENV, cheat, tasks=SOME, at_once=AT_ONCE)
    assert {task: score.value for task, score in scores.items()} == dict.fromkeys(SOME, 0.0)


@pytest.mark.system
@pytest.mark.timeout(900)
def test_looks_without_structure_are_worth_less_than_the_work(play):
    chosen = ["budget-2", "loan-2", "bank-2", "style-2", "minutes-2", "talk-2"]
    scores = play(ENV, look_right, tasks=chosen, at_once=AT_ONCE)
    values = [score.value for score in scores.values()]
    assert all(0.1 < value < 0.95 for value in values), values
    assert sum(values) / len(values) < 0.75


@pytest.mark.system
@pytest.mark.timeout(900)
def test_formatting_that_loses_text_earns_nothing(play):
    chosen = ["style-1", "manual-1", "deck-1"]
    scores = play(ENV, leave_a_text_out, tasks=chosen, at_once=AT_ONCE)
    assert {task: (score.value, score.gate) for task, score in scores.items()} == dict.fromkeys(chosen, (0.0, "nothing_lost"))


@pytest.mark.system
@pytest.mark.timeout(900)
def test_one_repair_of_five_is_worth_less_than_a_third(play):
    chosen = ["repair-1", "repair-2", "repair-3"]
    scores = play(ENV, repair_one_of_five, tasks=chosen, at_once=AT_ONCE)
    assert all(0 < score.value < 1 / 3 for score in scores.values()), scores


@pytest.mark.system
@pytest.mark.timeout(900)
def test_spoiling_the_inbox_costs_points(play):
    golden = ENV.marked.solution

    async def careless(agent: Agent, task: Task) -> None:
        await agent.call("bash", command="cp -r /inbox /tmp/kept")
        await golden(Before(agent, "rm -f /inbox/*"), task)

    assert 0 < play(ENV, careless, tasks=["style-1"], at_once=AT_ONCE)["style-1"].value < 1


@pytest.mark.system
@pytest.mark.timeout(900)
def test_every_rollout_of_a_task_begins_with_the_same_bytes(tmp_path):
    left: dict[str, list] = {}
    for trace in run(ENV, "scripted:noop", tasks=("budget-1", "merge-1", "talk-1"), group=2, runs=tmp_path):
        left.setdefault(trace.task, []).append(trace.evidence.files)
    assert all(one and one == other for one, other in left.values())


class Before:
    """The agent, with one more command just before its last words."""

    def __init__(self, agent: Agent, command: str) -> None:
        self.agent, self.command = agent, command

    async def call(self, tool, **arguments):
        return await self.agent.call(tool, **arguments)

    async def say(self, text):
        await self.agent.call("bash", command=self.command)
        await self.agent.say(text)
