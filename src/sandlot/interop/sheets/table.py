"""Rows of a sheet by the names of its columns, and findings that name the cell."""

import difflib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import msgspec

from sandlot.checks.office.reference import cell_name
from sandlot.core.text import one_line
from sandlot.grade.lint import LintSeverity
from sandlot.interop.sheets.grid import Grid

FINDINGS = "Findings"
"""The column that findings are written into. Reading ignores it."""
_MAX_SHOWN = 80


class CellFinding(msgspec.Struct, frozen=True, kw_only=True):
    """One problem of a spreadsheet: where it is, what is there, and the fix."""

    sheet: str
    cell: str
    """Such as `C7`."""
    value: str
    """What is in the cell, on one line and shortened."""
    code: str
    severity: LintSeverity
    message: str
    fix: str

    @property
    def place(self) -> str:
        """`Tasks!C7`."""
        return f"{self.sheet}!{self.cell}"


@dataclass(slots=True)
class FindingList:
    """Collects findings."""

    found: dict[CellFinding, None] = field(default_factory=dict[CellFinding, None])
    """In the order in which they were found, each once."""

    def add(
        self, grid: Grid, at: tuple[int, int], code: str, message: str, fix: str, severity: LintSeverity = LintSeverity.ERROR
    ) -> None:
        """Add a finding about a cell."""
        value = one_line(grid.text(*at), _MAX_SHOWN + 1)
        shown = value if len(value) <= _MAX_SHOWN else value[: _MAX_SHOWN - 1] + "…"
        found = CellFinding(
            sheet=grid.name, cell=cell_name(*at), value=shown, code=code, severity=severity, message=message, fix=fix
        )
        self.found[found] = None

    def ordered(self) -> list[CellFinding]:
        """Errors first, then in the order in which they were found."""
        order = list(LintSeverity)
        return sorted(self.found, key=lambda each: order.index(each.severity))

    @property
    def has_errors(self) -> bool:
        """True if the sheet cannot be imported."""
        return any(each.severity is LintSeverity.ERROR for each in self.found)


@dataclass(frozen=True, slots=True)
class Table:
    """A sheet whose first row names its columns."""

    grid: Grid
    columns: Mapping[str, int]
    header: int = 1

    def at(self, row: int, column: str) -> tuple[int, int]:
        """The place of a cell; that of the row's first cell if there is no such column."""
        return row, self.columns.get(column, 1)

    def text(self, row: int, column: str) -> str:
        """The text of a cell; empty if there is no such column."""
        return self.grid.text(row, self.columns[column]) if column in self.columns else ""

    def rows(self) -> Iterator[int]:
        """The rows below the header in which a known column is filled in."""
        known = set(self.columns.values())
        yield from sorted({row for row, column in self.grid.cells if row > self.header and column in known})


def open_table(grid: Grid, known: Sequence[str], needed: Sequence[str], findings: FindingList) -> Table:
    """A sheet with its columns; findings about its header and about cells that cannot be used."""
    rows = grid.rows()
    header = rows[0] if rows else 1
    columns: dict[str, int] = {}
    by_word = {name.lower(): name for name in known}
    for column in range(1, grid.width + 1):
        text = grid.text(header, column)
        name = by_word.get(text.rstrip("*: ").lower())
        if name is not None and name in columns:
            findings.add(grid, (header, column), "two-columns", f"the column `{name}` is there twice", "remove or rename one")
        elif name is not None:
            columns[name] = column
        elif text and not text.lower().startswith(FINDINGS.lower()):
            near = difflib.get_close_matches(text, known, n=1)
            fix = f"did you mean `{near[0]}`?" if near else f"columns are: {', '.join(known)}"
            findings.add(grid, (header, column), "unknown-column", "the column is not read", fix, LintSeverity.WARNING)
    for name in needed:
        if name not in columns:
            findings.add(grid, (header, 1), "no-column", f"there is no column `{name}`", f"write `{name}` into the first row")
    table = Table(grid, columns, header)
    _find_unusable(table, findings)
    return table


def _find_unusable(table: Table, findings: FindingList) -> None:
    grid, names = table.grid, {column: name for name, column in table.columns.items()}
    for (row, column), cell in sorted(grid.cells.items()):
        if cell.problem == "a formula" and column in names:
            fix = "copy the cell and paste it as a value; put an apostrophe before a text that begins with ="
            findings.add(grid, (row, column), "formula", "it is a formula, and formulas are not calculated here", fix)
        elif cell.problem and column in names:
            findings.add(grid, (row, column), "error-value", f"it is {cell.problem}", "correct it, or write the value")
    for row in table.rows():
        if row in grid.hidden_rows:
            message = "the row is hidden, and is read all the same"
            findings.add(grid, (row, 1), "hidden", message, "show it, or delete it", LintSeverity.WARNING)
    for row, column in grid.merged:
        if row > table.header and column in names:
            message = "it is merged with others; the value counts for the first cell only"
            findings.add(grid, (row, column), "merged", message, "split the cells and fill in each", LintSeverity.WARNING)
