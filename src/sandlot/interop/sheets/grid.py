"""Spreadsheets as grids of text, whatever the file format: `.xlsx`, `.ods` and `.csv`.

The file is untrusted. Formulas are not calculated, links are not followed, macros are not run; sizes, XML entities and zip
tricks are limited by `OfficeArchive`.
"""

import csv
import datetime as dt
import io
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from sandlot.checks.office.archive import open_office
from sandlot.checks.office.reference import cell_name
from sandlot.checks.office.workbook import CellStyle, SheetCell, Workbook, WorkSheet, read_workbook
from sandlot.core.errors import ConfigError, NotInEvidence
from sandlot.interop.sheets.ods import read_ods_tables
from sandlot.interop.untrusted import read_bytes

FORMATS = (".xlsx", ".ods", ".csv")
_MAX_FILE_BYTES = 32 * 2**20
_MAX_ROWS = 20_000
_MAX_COLUMNS = 200
_MAX_CELL_CHARS = 100_000
_INJECTED = ("=", "+", "-", "@", "\t", "\r")
"""A text that begins with one of these is a formula to a spreadsheet program that opens a CSV file."""
_ERROR_VALUES = frozenset({"#REF!", "#N/A", "#NAME?", "#VALUE!", "#DIV/0!", "#NUM!", "#NULL!"})
_DATE_CODES = re.compile(r'"[^"]*"|\[[^\]]*\]|\\.')
"""Parts of a number format that are no codes: literal text, colours, escaped characters."""
_SECONDS_A_DAY = 86_400


@dataclass(frozen=True, slots=True)
class GridCell:
    """One cell that is not empty."""

    text: str
    problem: str = ""
    """Why the text cannot be used, such as a formula; empty if it can."""


@dataclass(slots=True)
class Grid:
    """One sheet."""

    name: str
    cells: dict[tuple[int, int], GridCell] = field(default_factory=dict[tuple[int, int], GridCell])
    """By row and column, from 1."""
    hidden_rows: frozenset[int] = frozenset()
    merged: tuple[tuple[int, int], ...] = ()
    """First row and column of merged cells."""

    def text(self, row: int, column: int) -> str:
        """The text of a cell without blanks around it; empty if there is none."""
        cell = self.cells.get((row, column))
        return cell.text.strip() if cell is not None else ""

    def rows(self) -> list[int]:
        """Numbers of the rows that are not empty, in order."""
        return sorted({row for row, _ in self.cells})

    @property
    def width(self) -> int:
        """The last column in use; 0 if there is none."""
        return max((column for _, column in self.cells), default=0)


@dataclass(frozen=True, slots=True)
class SheetFile:
    """A spreadsheet file that was read."""

    path: Path
    grids: tuple[Grid, ...]
    notes: tuple[str, ...] = ()
    """What of the file is ignored, such as macros."""

    def grid(self, name: str) -> Grid | None:
        """The sheet of this name; case does not count."""
        return next((grid for grid in self.grids if grid.name.strip().lower() == name.lower()), None)


def read_sheet_file(path: Path) -> SheetFile:
    """Read a spreadsheet; `ConfigError` if it cannot be read or is too large."""
    require_format(path)
    if path.suffix.lower() == ".csv":
        return _read_csv(path)
    data = read_bytes(path, at_most=_MAX_FILE_BYTES)
    try:
        if path.suffix.lower() == ".ods":
            tables, notes = read_ods_tables(data, str(path))
            grids = [_limited(_grid_of_texts(name, cells)) for name, cells in tables]
        else:
            grids = [_limited(_grid_of(sheet)) for sheet in _sheets(read_workbook(data, str(path)))]
            notes = _ignored_parts(data, str(path))
    except NotInEvidence as error:  # what a check would call not met is a wrong file here
        raise ConfigError(str(error)) from error
    return SheetFile(path, tuple(grids), tuple(notes))


def require_format(path: Path) -> None:
    """`ConfigError` if the file's ending is not that of a spreadsheet."""
    if path.suffix.lower() not in FORMATS:
        hint = (
            "save it as .xlsx" if path.suffix.lower() in {".xls", ".xlsm", ".xlsb", ".numbers"} else f"use {', '.join(FORMATS)}"
        )
        raise ConfigError(f"`{path}` is not a spreadsheet that can be read; {hint}")


def _sheets(book: Workbook) -> Iterator[WorkSheet]:
    yield from book.sheets.values()


def _ignored_parts(data: bytes, what: str) -> list[str]:
    names = open_office(data, what).names
    notes = ["it has macros; they are ignored and never run"] if any("vbaproject" in name.lower() for name in names) else []
    if any(name.startswith("xl/externalLinks/") for name in names):
        notes.append("it has links to other workbooks; they are not followed")
    return notes


def _grid_of(sheet: WorkSheet) -> Grid:
    cells = {at: found for at, cell in sheet.cells.items() if (found := _cell_of(cell)) is not None}
    merged = tuple((area.top, area.left) for area in sheet.merged)
    return Grid(sheet.name, cells, frozenset(sheet.hidden_rows), merged)


def _cell_of(cell: SheetCell) -> GridCell | None:
    if cell.formula is not None:
        return GridCell(f"={cell.formula}", "a formula")
    if cell.value is None or cell.value == "":
        return None
    if isinstance(cell.value, bool):
        return GridCell("TRUE" if cell.value else "FALSE")
    if isinstance(cell.value, str):
        return _checked(cell.value)
    return _checked(_shown_number(cell.value, cell.style))


def _checked(text: str) -> GridCell:
    return GridCell(text, "an error value" if text in _ERROR_VALUES else "")


def _shown_number(value: float, style: CellStyle) -> str:
    """A number as its author reads it: dates are numbers with a format."""
    codes = _DATE_CODES.sub("", style.number_format).lower()
    if codes != "general" and re.search(r"[ymdhs]", codes) and 0 <= value < 3_000_000:
        return _shown_date(value, codes)
    if codes.rstrip().endswith("%"):
        return f"{_plain(round(value * 100, 10))}%"
    return _plain(value)


def _shown_date(value: float, codes: str) -> str:
    days, seconds = int(value), round((value - int(value)) * _SECONDS_A_DAY)
    moment = dt.datetime(1899, 12, 30) + dt.timedelta(days=days, seconds=seconds)  # noqa: DTZ001 - cells have no time zone
    if not re.search(r"[yd]", codes):
        return moment.strftime("%H:%M:%S")
    return moment.strftime("%Y-%m-%dT%H:%M:%S") if re.search(r"[hs]", codes) else moment.strftime("%Y-%m-%d")


def _plain(value: float) -> str:
    return str(int(value)) if value.is_integer() and abs(value) < 1e15 else repr(value)


def _grid_of_texts(name: str, texts: dict[tuple[int, int], tuple[str, bool]]) -> Grid:
    cells = {at: GridCell(text, "a formula") if is_formula else _checked(text) for at, (text, is_formula) in texts.items()}
    return Grid(name, cells)


def _read_csv(path: Path) -> SheetFile:
    """`FILE.csv` is the sheet `Tasks`; `FILE.checks.csv`, `FILE.files.csv` and so on beside it are the other sheets."""
    beside = sorted(path.parent.glob(f"{_escaped(path.stem)}.*.csv"))
    grids = [_csv_grid("Tasks", path)]
    grids += [_csv_grid(other.name[len(path.stem) + 1 : -4].capitalize(), other) for other in beside]
    return SheetFile(path, tuple(grids))


def _escaped(stem: str) -> str:
    return re.sub(r"([*?\[])", r"[\1]", stem)


def csv_files(path: Path) -> list[Path]:
    """The files that a CSV spreadsheet consists of."""
    return [path, *sorted(path.parent.glob(f"{_escaped(path.stem)}.*.csv"))]


def _csv_grid(name: str, path: Path) -> Grid:
    data = read_bytes(path, at_most=_MAX_FILE_BYTES)
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ConfigError(f"`{path}` is not UTF-8 text: {error}; save it as CSV UTF-8") from error
    grid = Grid(name)
    try:
        reader = csv.reader(io.StringIO(text, newline=""), delimiter=_delimiter(text), strict=True)
        for number, row in enumerate(reader, 1):
            for column, value in enumerate(row, 1):
                if value.strip():
                    grid.cells[number, column] = _csv_cell(value)
            if number > _MAX_ROWS:
                break
    except csv.Error as error:
        raise ConfigError(f"`{path}` is not CSV: {error}") from error
    return _limited(grid)


def _delimiter(text: str) -> str:
    """Comma, or what spreadsheet programs of other countries write: the one that the first line has most."""
    first = text.partition("\n")[0]
    return max((",", ";", "\t"), key=first.count)


def _csv_cell(value: str) -> GridCell:
    if value.startswith("'") and value[1:].startswith(_INJECTED):
        return GridCell(value[1:])
    return GridCell(value, "a formula") if value.startswith("=") else _checked(value)


def csv_text(grid: Grid) -> str:
    """A grid as CSV. A text that a spreadsheet program would run as a formula gets a `'` before it; reading removes it."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\r\n")
    for row in range(1, max(grid.rows(), default=0) + 1):
        cells = [grid.cells.get((row, column)) for column in range(1, grid.width + 1)]
        writer.writerow([_safe_csv(cell.text) if cell is not None else "" for cell in cells])
    return out.getvalue()


def _safe_csv(text: str) -> str:
    if not text.startswith(_INJECTED) or re.fullmatch(r"[+-]?\d+(\.\d+)?%?", text):
        return text
    return f"'{text}"


def _limited(grid: Grid) -> Grid:
    """The grid; `ConfigError` if it is larger than any sheet that a person fills in."""
    rows = grid.rows()
    if rows and rows[-1] > _MAX_ROWS:
        raise ConfigError(f"sheet `{grid.name}` has {rows[-1]:,} rows or more; at most {_MAX_ROWS:,} are read")
    if grid.width > _MAX_COLUMNS:
        raise ConfigError(f"sheet `{grid.name}` has {grid.width:,} columns; at most {_MAX_COLUMNS} are read")
    for (row, column), cell in grid.cells.items():
        if len(cell.text) > _MAX_CELL_CHARS:
            raise ConfigError(
                f"{grid.name}!{cell_name(row, column)} has {len(cell.text):,} characters; at most {_MAX_CELL_CHARS:,} are read"
            )
    return grid
