"""Spreadsheets of tasks for tests, sheet by sheet."""

from pathlib import Path

from sandlot.interop.sheets.grid import csv_text
from sandlot.interop.sheets.ods import ods_bytes
from sandlot.interop.sheets.template import grid_of
from sandlot.interop.sheets.xlsx import SheetPage, xlsx_bytes

TASKS = [["Task", "Prompt", "Answer", "Check", "Tolerance"]]
CHECKS = [
    ["Task", "Name", "Kind", "File", "Field", "Expected", "Tolerance", "Points", "Gate", "Needs", "Passes", "Fails", "Options"]
]
FILES = [["Task", "Path", "Content", "From", "Role"]]


def write_sheets(path: Path, **sheets: list[list[str]]) -> Path:
    """Rows below the header of each sheet: `tasks`, `checks`, `files`, `settings`."""
    headers = {"tasks": TASKS, "checks": CHECKS, "files": FILES, "settings": [["Setting", "Value"]]}
    rows = {name.capitalize(): headers[name] + rows for name, rows in sheets.items()}
    if path.suffix == ".xlsx":
        path.write_bytes(xlsx_bytes([SheetPage(name, each) for name, each in rows.items()]))
    elif path.suffix == ".ods":
        path.write_bytes(ods_bytes(rows))
    else:
        for name, each in rows.items():
            file = path if name == "Tasks" else path.with_name(f"{path.stem}.{name.lower()}.csv")
            file.write_text(csv_text(grid_of(name, each)))
    return path


def check_row(**cells: str) -> list[str]:
    """A row of the sheet Checks by the names of its columns."""
    return [cells.get(name.lower(), "") for name in CHECKS[0]]
