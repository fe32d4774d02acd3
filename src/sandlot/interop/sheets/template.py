"""`sandlot task new`: a spreadsheet to start from, with examples, the kinds of checks and instructions."""

from pathlib import Path

from sandlot.core.disk import write_file
from sandlot.core.errors import ConfigError
from sandlot.core.types import Split
from sandlot.interop.sheets.grid import Grid, GridCell, csv_text, require_format
from sandlot.interop.sheets.kinds import KINDS
from sandlot.interop.sheets.ods import ods_bytes
from sandlot.interop.sheets.tasks import CHECK_COLUMNS, CHECKS, FILE_COLUMNS, FILES, ROLES, SETTINGS, TASK_COLUMNS, TASKS
from sandlot.interop.sheets.xlsx import SheetPage, xlsx_bytes

_TASK_ROWS = [
    ["boiling-point", "At which temperature does water boil at sea level? Answer with a number and a unit.", "100 °C", "quantity", "0.1%", "", "physics"],
    ["leap-year", "Was 1900 a leap year? Answer yes or no.", "no", "answer equals", "", "", "calendar"],
    ["trip-total", "Read /in/trip.csv and write /out/total.json with the key total: the sum of all amounts.", "done", "", "", "", "files"],
]  # fmt: skip
_CHECK_ROWS = [
    ["trip-total", "total", "json field", "/out/total.json", "total", "151.5", "0.005", "3"],
    ["trip-total", "kept_input", "file unchanged", "/in/trip.csv", "", "", "", "1", "", "total"],
]
_FILE_ROWS = [
    ["trip-total", "/in/trip.csv", "what,amount\ntrain,89.50\nhotel,62.00", "", "given"],
    ["trip-total", "/out/total.json", '{"total": 151.5}', "", "golden"],
]
_SETTING_ROWS = [
    ["name", ""],
    ["description", "What these tasks are about, in one sentence."],
    ["system", "Answer briefly. Write files where the task asks for them."],
    ["image", ""],
    ["turns", "20"],
]
_HOW_TO = (
    "Tasks: one row per task. Prompt is what the agent reads. Answer is the golden answer: what a perfect agent says last.",
    "For a task with one simple answer, choose a kind in Check; Tolerance may be 0.5, 2% or 0.1 kg, as the kind says.",
    "Checks: one row per check, for tasks that need more. Task: one name, several with commas, or * for all. Points: 1 if empty.",
    "Points below 0 are a penalty: the check describes something bad. Gate = yes: if it is not met, the score is 0.",
    "Needs: names of checks that must be met first. Expected: what is right; for answers, empty means the golden answer.",
    "A judge check is a statement in Expected that a model calls true or false. Give an example in Passes and in Fails.",
    "Files: what the agent is given (Role: given), and what a perfect agent writes (golden). Content is the text.",
    "Other files: put them into the folder NAME-files beside this spreadsheet and write the file name into From.",
    "Formulas are not calculated: paste values. Split: train or heldout; if empty, a fifth of the tasks is held out.",
    "Check your work:   sandlot task lint FILE",
    "See what the agent and the grader see:   sandlot task preview FILE",
    "Look for weak checks; findings are written into a copy:   sandlot task audit FILE --out COPY",
    "Make an environment:   sandlot import sheet FILE --out FOLDER",
    "Delete the example rows when you know how it works.",
)  # fmt: skip


def write_template(path: str | Path) -> list[Path]:
    """Write a spreadsheet with examples, in the format of the file's ending, and return its files. `ConfigError` if one exists.

    - `path`: the file: `.xlsx`, `.ods` or `.csv`. A `.csv` has a file for each sheet: `NAME.csv`, `NAME.checks.csv`, ...
    """
    path = Path(path)
    require_format(path)
    pages = _pages()
    if path.suffix.lower() == ".csv":
        files = {
            path if page.name == TASKS else path.with_name(f"{path.stem}.{page.name.lower()}.csv"): page for page in pages[:4]
        }
        contents = {file: csv_text(grid_of(page.name, page.rows)).encode() for file, page in files.items()}
    elif path.suffix.lower() == ".ods":
        contents = {path: ods_bytes({page.name: page.rows for page in pages})}
    else:
        contents = {path: xlsx_bytes(pages)}
    for file in contents:
        if file.exists():
            raise ConfigError(f"`{file}` already exists; choose another name")
    for file, data in contents.items():
        file.parent.mkdir(parents=True, exist_ok=True)
        write_file(file, data)
    return list(contents)


def grid_of(name: str, rows: list[list[str]]) -> Grid:
    """Rows of text as a grid."""
    cells = {(down, right): GridCell(text) for down, row in enumerate(rows, 1) for right, text in enumerate(row, 1) if text}
    return Grid(name, cells)


def _pages() -> list[SheetPage]:
    kinds = [["Kind", "Meaning"], *([kind.name, kind.meaning] for kind in KINDS.values())]
    listed = f"Kinds!$A$2:$A${len(kinds)}"
    return [
        SheetPage(
            TASKS, [list(TASK_COLUMNS), *_TASK_ROWS], (18, 60, 30, 16, 10, 10, 16, 20, 12, 20),
            {4: listed, 6: ",".join(Split)},
        ),
        SheetPage(
            CHECKS, [list(CHECK_COLUMNS), *_CHECK_ROWS], (18, 16, 16, 20, 16, 40, 10, 8, 8, 14, 24, 24, 24, 20),
            {3: listed, 9: "yes,no"},
        ),
        SheetPage(FILES, [list(FILE_COLUMNS), *_FILE_ROWS], (18, 24, 60, 20, 10, 20), {5: ",".join(ROLES)}),
        SheetPage(SETTINGS, [["Setting", "Value"], *_SETTING_ROWS], (16, 80)),
        SheetPage("Kinds", kinds, (18, 100)),
        SheetPage("How to", [["How to"], *([line] for line in _HOW_TO)], (120,)),
    ]  # fmt: skip
