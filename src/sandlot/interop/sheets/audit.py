"""Audits the tasks of a spreadsheet, and writes the findings beside the cells they are about, in a copy of it."""

import tempfile
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

import msgspec

from sandlot.audit.audit import audit
from sandlot.audit.finding import Finding
from sandlot.audit.verdict import Audit
from sandlot.checks.office.reference import cell_name
from sandlot.core.disk import write_file
from sandlot.core.errors import ConfigError, NotInEvidence
from sandlot.env.importing import import_environment
from sandlot.grade.lint import LintSeverity
from sandlot.interop.sheets.grid import Grid, GridCell, csv_files, csv_text, read_sheet_file
from sandlot.interop.sheets.importer import SheetImporter, sheet_name
from sandlot.interop.sheets.lint import lint_tasks
from sandlot.interop.sheets.ods import ods_bytes
from sandlot.interop.sheets.table import FINDINGS, CellFinding
from sandlot.interop.sheets.tasks import TaskSheet, read_tasks
from sandlot.interop.sheets.xlsx import with_cells
from sandlot.interop.untrusted import read_bytes
from sandlot.observe.events import Sink, ignore_event

_MAX_CELL_CHARS = 30_000
"""Excel cuts off longer texts."""


class SheetAudit(msgspec.Struct, frozen=True, kw_only=True):
    """What an audit of a spreadsheet found."""

    file: str
    findings: tuple[CellFinding, ...]
    verdict: str
    """SHIP, FIX or INCOMPLETE; `not played` if the spreadsheet has errors."""
    tasks: int
    trials: int = 0
    copy: str | None = None
    """The copy with the findings, if one was written."""

    @property
    def exit_code(self) -> int:
        """0 for SHIP, 3 for INCOMPLETE, 1 for everything else."""
        return {"SHIP": 0, "INCOMPLETE": 3}.get(self.verdict, 1)


def audit_sheet(
    path: str | Path, *, copy: str | Path | None = None, judge: str | None = None, limit: int = 100, sink: Sink = ignore_event
) -> SheetAudit:
    """Lint a spreadsheet; if it has no errors, audit its tasks as an environment.

    - `path`: an `.xlsx`, `.ods` or `.csv` file.
    - `copy`: a file of the same format to write, with the findings in a column `Findings`.
    - `judge`: the grader model for judge checks; without one, an environment with judge checks is INCOMPLETE.
    - `limit`: maximum number of tasks to play.
    - `sink`: receives an event when a probe begins and when it has ended.
    """
    path = Path(path)
    target = Path(copy) if copy is not None else None
    if target is not None:
        _require_copy(path, target)
    sheet = read_tasks(read_sheet_file(path))
    findings = lint_tasks(sheet)
    played: Audit | None = None
    if not sheet.findings.has_errors:
        with tempfile.TemporaryDirectory(prefix="sandlot-sheet-") as temporary:
            folder = Path(temporary) / sheet_name(sheet)
            import_environment(SheetImporter.kind, str(path), folder)
            played = audit(str(folder), judge=judge, limit=limit, runs=None, sink=sink)
        findings = [*findings, *(_in_cell(sheet, each) for each in played.findings)]
    if target is not None:
        write_findings(sheet, findings, target)
    return SheetAudit(
        file=str(path),
        findings=tuple(findings),
        verdict=played.verdict.value if played else "not played",
        tasks=played.tasks if played else 0,
        trials=played.trials if played else 0,
        copy=str(target) if target else None,
    )


def _require_copy(path: Path, target: Path) -> None:
    if target.suffix.lower() != path.suffix.lower():
        raise ConfigError(f"`{target}` has another format than `{path}`; give it the ending {path.suffix}")
    if target.exists():
        raise ConfigError(f"`{target}` already exists; choose another name for the copy")


def _in_cell(sheet: TaskSheet, finding: Finding) -> CellFinding:
    """A finding of the audit at the cell it is about: the check's, the task's, or the first one of the sheet Tasks."""
    tasks = [sheet.tasks[finding.task]] if finding.task in sheet.tasks else list(sheet.tasks.values())
    grid, at = sheet.table.grid, (sheet.table.header, 1)
    if finding.task in sheet.tasks:
        at = sheet.table.at(tasks[0].row, "Answer")
    for task in tasks:
        check = next((each for each in task.checks if each.check.id == finding.check), None)
        if check is not None:
            grid, at = check.at("Expected")
            break
    seen = f" ({finding.witness.observed})" if finding.witness is not None else ""
    return CellFinding(
        sheet=grid.name,
        cell=cell_name(*at),
        value=grid.text(*at)[:80],
        code=finding.code,
        severity=LintSeverity.ERROR if finding.grave else LintSeverity.WARNING,
        message=f"{finding.title}{seen}",
        fix=finding.fix,
    )


def write_findings(sheet: TaskSheet, findings: Sequence[CellFinding], target: Path) -> None:
    """Write a copy of the spreadsheet with a column `Findings` on the sheets that have any.

    An `.xlsx` keeps everything else as it is. An `.ods` is written anew, with its texts only.
    """
    texts = _texts(sheet, findings)
    path = sheet.file.path
    if path.suffix.lower() == ".xlsx":
        try:
            write_file(target, with_cells(read_bytes(path), str(path), texts))
        except NotInEvidence as error:
            raise ConfigError(str(error)) from error
        return
    grids = [_with_texts(grid, texts.get(grid.name, {})) for grid in sheet.file.grids]
    if path.suffix.lower() == ".ods":
        write_file(target, ods_bytes({grid.name: _rows(grid) for grid in grids}))
        return
    for grid, source in zip(grids, csv_files(path), strict=True):
        write_file(target.with_name(target.stem + source.name[len(path.stem) :]), csv_text(grid).encode())


def _texts(sheet: TaskSheet, findings: Sequence[CellFinding]) -> dict[str, dict[tuple[int, int], str]]:
    """By sheet: the column of findings, with the ones of an earlier copy cleared."""
    by_row: dict[tuple[str, int], list[str]] = defaultdict(list)
    for each in findings:
        row = int(each.cell.lstrip("ABCDEFGHIJKLMNOPQRSTUVWXYZ"))
        by_row[each.sheet, row].append(f"{each.cell}, {each.severity}: {each.message}" + (f" ({each.fix})" if each.fix else ""))
    texts: dict[str, dict[tuple[int, int], str]] = {}
    for grid in sheet.file.grids:
        rows = {row: "\n".join(said)[:_MAX_CELL_CHARS] for (name, row), said in by_row.items() if name == grid.name}
        header = (grid.rows() or [1])[0]
        old = [column for (row, column), cell in grid.cells.items() if row == header and cell.text.startswith(FINDINGS)]
        column = old[0] if old else grid.width + 1
        if not rows and not old:
            continue
        present = set(grid.rows())
        general = [said for row, said in rows.items() if row == header or row not in present]
        cells = {(row, column): "" for row, at in grid.cells if at == column}
        cells |= {(row, column): said for row, said in rows.items() if row in present and row != header}
        cells[header, column] = "\n".join([FINDINGS, *general])
        texts[grid.name] = cells
    return texts


def _with_texts(grid: Grid, texts: dict[tuple[int, int], str]) -> Grid:
    cells = grid.cells | {at: GridCell(text) for at, text in texts.items()}
    return Grid(grid.name, {at: cell for at, cell in cells.items() if cell.text})


def _rows(grid: Grid) -> list[list[str]]:
    last = max(grid.rows(), default=0)
    return [
        [cell.text if (cell := grid.cells.get((row, column))) else "" for column in range(1, grid.width + 1)]
        for row in range(1, last + 1)
    ]
