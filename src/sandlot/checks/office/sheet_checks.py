"""Checks of spreadsheets (`.xlsx`, and `.ods` through LibreOffice), named in a rubric as `sandlot:NAME`.

Values are those after a recalculation in the grading sandbox; a value in a hidden place or in white on white is not there. A cell
is `Sheet!B2`, a range `Sheet!B2:D9`; a date is its serial number (`date_serial`). Checks of ranges return the share of cells that
are right.
"""

import datetime as dt
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from sandlot.checks.office.chart import OfficeChart
from sandlot.checks.office.recalculation import Changes, office_bytes, recalculated
from sandlot.checks.office.reference import Area, cell_name, functions_in, parse_area, plain_formula
from sandlot.checks.office.workbook import CellStyle, SheetCell, Workbook, WorkSheet, read_workbook
from sandlot.core.errors import NotInEvidence
from sandlot.core.ports.grading import Evidence

Said = tuple[float, str]
_EPOCH = dt.date(1899, 12, 30)
_SHOWN = 6
"""Cells named in the reason of a check."""
_MAX_ROWS = 5_000
_CURRENCY = re.compile(r"[€$£¥]|\[\$[^\]-]+|EUR|USD|GBP|CHF", re.IGNORECASE)
_DATE = re.compile(r"[yd]", re.IGNORECASE)
_NOT_SHOWN = re.compile(r'"[^"]*"|\\.|_.|\[[^\]]*\]')
_STYLES = ("bold", "italic", "wrap", "color", "fill", "font", "size", "align", "border")
_FORMATS = ("currency", "percent", "date", "time", "thousands", "integer", "two_decimals", "text")


def date_serial(day: str) -> int:
    """The number that a spreadsheet has for a date such as `2026-03-31`."""
    return (dt.date.fromisoformat(day) - _EPOCH).days


async def workbook_opens(evidence: Evidence, path: str, *, scenarios: Sequence[Changes] = ()) -> Said:
    """LibreOffice loads and recalculates the file.

    Name the changes of later `what_if` checks as `scenarios`: then one start of LibreOffice is enough for all of them.
    """
    book = await recalculated(evidence, path, scenarios=scenarios)
    num_errors = sum(map(len, book.errors.values()))
    return 1.0, f"sheets: {', '.join(book.sheets)}; {num_errors} cells with errors"


async def no_error_values(evidence: Evidence, path: str) -> Said:
    """No cell shows an error such as `#REF!` or `#DIV/0!` after recalculation, and at least one cell has a value."""
    book = await recalculated(evidence, path)
    wrong = [f"{sheet}!{cell_name(*at)}" for sheet, cells in book.errors.items() for at in sorted(cells)]
    return float(not wrong and any(book.sheets.values())), f"errors in {_some(wrong)}" if wrong else "no cell has an error"


async def cell_value(
    evidence: Evidence, path: str, cell: str, value: float | str, *, tolerance: float = 0.005, changes: Changes | None = None
) -> Said:
    """The cell has this number or text, after recalculation, where a reader can see it. A number stored as text is a text."""
    return await cell_values(evidence, path, cell, [[value]], tolerance=tolerance, changes=changes)


async def cell_values(
    evidence: Evidence,
    path: str,
    cells: str,
    values: Sequence[Sequence[float | str | None]],
    *,
    tolerance: float = 0.005,
    changes: Changes | None = None,
) -> Said:
    """The share of a range's cells that have these values (rows of columns; None for an empty cell) after recalculation."""
    area = parse_area(cells)
    book = await recalculated(evidence, path, changes)
    file = await _workbook(evidence, path)
    wanted = {(area.top + down, area.left + right): value for down, row in enumerate(values) for right, value in enumerate(row)}
    wrong: list[str] = []
    for (row, column), value in wanted.items():
        found = book.value(area.sheet, row, column)
        sheet = file.sheet(area.sheet)
        if not (_same(found, value, tolerance) and sheet is not None and (value is None or sheet.shown(row, column))):
            wrong.append(f"{cell_name(row, column)} is {_short(found)}, not {_short(value)}")
    return _share(len(wanted), wrong)


async def what_if(
    evidence: Evidence, path: str, changes: Changes, values: Mapping[str, float | str], *, tolerance: float = 0.005
) -> Said:
    """After these inputs are changed and everything is recalculated, these cells have these values: the model is live.

    A typed-in result, or a formula that does not read the inputs, is not met. The strongest check of a calculation.
    """
    book = await recalculated(evidence, path, changes)
    wrong: list[str] = []
    for cell, value in values.items():
        area = parse_area(cell)
        found = book.value(area.sheet, area.top, area.left)
        if not _same(found, value, tolerance):
            wrong.append(f"{cell} becomes {_short(found)}, not {_short(value)}")
    return _share(len(values), wrong)


async def live_formula(
    evidence: Evidence, path: str, cells: str, *, reads: Sequence[str] = (), functions: Sequence[str] = ()
) -> Said:
    """The share of a range's cells whose formula reads other cells; `=6*1` and a typed-in number do not count.

    `reads`: ranges that the formula must reach, directly or through other formulas. `functions`: one of these must be called.
    """
    book = await _workbook(evidence, path)
    area = parse_area(cells)
    wanted = [(part.sheet or area.sheet, at) for part in map(parse_area, reads) for at in part.cells()]
    wrong: list[str] = []
    for row, column in area.cells():
        name, cell = cell_name(row, column), book.cell(area.sheet, row, column)
        if cell is None or cell.formula is None:
            wrong.append(f"{name} has no formula")
            continue
        reached = book.reached(area.sheet, row, column)
        missed = [f"{sheet}!{cell_name(*at)}" for sheet, at in wanted if not any(each.contains(sheet, *at) for each in reached)]
        if not reached:
            wrong.append(f"{name} reads no cell: ={cell.formula[:60]}")
        elif missed:
            wrong.append(f"{name} does not read {_some(missed)}: ={cell.formula[:60]}")
        elif functions and not functions_in(cell.formula) & {each.upper() for each in functions}:
            wrong.append(f"{name} calls none of {', '.join(functions)}: ={cell.formula[:60]}")
    return _share(len(area.cells()), wrong)


async def number_format(evidence: Evidence, path: str, cells: str, like: Sequence[str] | str) -> Said:
    """The share of a range's cells with a number format of these kinds.

    Kinds: `currency`, `percent`, `date`, `time`, `thousands`, `integer`, `two_decimals`, `text`. A list means all of them.
    """
    kinds = [like] if isinstance(like, str) else list(like)
    unknown = [kind for kind in kinds if kind not in _FORMATS]
    if unknown:
        raise ValueError(f"no kind of number format `{unknown[0]}`; there are: {', '.join(_FORMATS)}")
    return await _each_cell(
        evidence,
        path,
        cells,
        lambda cell: all(_is_format(cell.style.number_format, kind) for kind in kinds),
        lambda cell: f"`{cell.style.number_format}`",
    )


async def cell_style(evidence: Evidence, path: str, cells: str, like: Mapping[str, Any]) -> Said:
    """The share of a range's cells with this style: `{"bold": true, "fill": "any", "font": "Arial"}`.

    Keys: `bold`, `italic`, `wrap`, `color` and `fill` (`RRGGBB`, or `any` for a fill other than white), `font`, `size`, `align`,
    `border` (a side that is drawn).
    """
    unknown = [key for key in like if key not in _STYLES]
    if unknown:
        raise ValueError(f"no style `{unknown[0]}`; there are: {', '.join(_STYLES)}")
    return await _each_cell(
        evidence, path, cells, lambda cell: _has_style(cell.style, like), lambda cell: _style_text(cell.style)
    )


async def frozen_panes(evidence: Evidence, path: str, cell: str) -> Said:
    """Panes of the sheet are frozen so that `cell` (such as `Sheet!A2`) is the first that scrolls."""
    area = parse_area(cell)
    sheet = await _sheet(evidence, path, area.sheet)
    return float(sheet.frozen == cell_name(area.top, area.left)), f"frozen at `{sheet.frozen or 'nothing'}`"


async def conditional_format(
    evidence: Evidence,
    path: str,
    cells: str,
    *,
    kind: str | None = None,
    operator: str | None = None,
    mentions: Sequence[str] = (),
) -> Said:
    """One conditional format covers the whole range, of this kind and operator, with these texts in its formulas.

    Kinds are those of the file: `cellIs`, `expression`, `colorScale`, `dataBar`, ...; operators `lessThan`, `greaterThan`, ...
    """
    area = parse_area(cells)
    sheet = await _sheet(evidence, path, area.sheet)
    for rule in sheet.rules:
        text = " ".join(map(plain_formula, rule.formulas))
        fits = (kind is None or rule.kind == kind) and (operator is None or rule.operator == operator)
        if fits and _covered(area, rule.areas) and all(plain_formula(each) in text for each in mentions):
            return 1.0, f"{rule.kind} {rule.operator} {text[:80]}"
    return 0.0, f"rules: {_some([f'{rule.kind} {rule.operator} {rule.formulas}' for rule in sheet.rules])}"


async def data_validation(
    evidence: Evidence,
    path: str,
    cells: str,
    kind: str,
    *,
    items: Sequence[str] = (),
    formulas: Sequence[str] = (),
    operator: str = "",
) -> Said:
    """One data validation covers the whole range: its kind (`list`, `whole`, `decimal`, `date`), choices, or limits.

    The choices of a list may be typed in or be a range of cells.
    """
    area = parse_area(cells)
    book = await _workbook(evidence, path)
    sheet = await _sheet(evidence, path, area.sheet)
    for rule in sheet.validations:
        if rule.kind != kind or not _covered(area, rule.areas) or (operator and rule.operator != operator):
            continue
        if items and _items(book, rule.formulas, area.sheet) != list(items):
            continue
        if formulas and [plain_formula(each) for each in rule.formulas] != [plain_formula(each) for each in formulas]:
            continue
        return 1.0, f"{rule.kind} {rule.operator} {rule.formulas}"
    return 0.0, f"validations: {_some([f'{rule.kind} {rule.operator} {rule.formulas}' for rule in sheet.validations])}"


async def named_range(evidence: Evidence, path: str, name: str, refers: str) -> Said:
    """The workbook defines this name for this range."""
    book = await _workbook(evidence, path)
    found = book.names.get(name.lower(), "")
    return float(_same_area(found, refers)), f"`{name}` is {found or 'not defined'}"


async def filtered_table(evidence: Evidence, path: str, cells: str) -> Said:
    """The range is a table or has filter buttons."""
    area = parse_area(cells)
    sheet = await _sheet(evidence, path, area.sheet)
    there = [*sheet.tables.values(), *([sheet.filter] if sheet.filter is not None else [])]
    found = [f"{cell_name(each.top, each.left)}:{cell_name(each.bottom, each.right)}" for each in there]
    return float(f"{cell_name(area.top, area.left)}:{cell_name(area.bottom, area.right)}" in found), f"there: {_some(found)}"


async def chart_shows(
    evidence: Evidence,
    path: str,
    sheet: str,
    values: Sequence[str],
    *,
    categories: str = "",
    kind: str = "",
    title: str = "",
    axis_titles: Sequence[str] = (),
) -> Said:
    """A chart on the sheet draws exactly these ranges; then the share of its other properties that are right.

    `title` and `axis_titles` (the category axis first) must be contained in the chart's, ignoring case. A chart with other ranges
    earns nothing, whatever its titles say.
    """
    book = await _sheet(evidence, path, sheet)
    best: Said = (0.0, f"{len(book.charts)} charts on `{sheet}`" + "".join(f"; {_chart_text(chart)}" for chart in book.charts))
    for chart in book.charts:
        found = [series.values for series in chart.series]
        if len(found) != len(values) or not all(any(_same_area(each, want) for each in found) for want in values):
            continue
        facts = [True]
        facts += [all(_same_area(series.categories, categories) for series in chart.series)] if categories else []
        facts += [chart.kind == kind] if kind else []
        facts += [title.casefold() in chart.title.casefold()] if title else []
        facts += [
            place < len(chart.axis_titles) and text.casefold() in chart.axis_titles[place].casefold()
            for place, text in enumerate(axis_titles)
        ]
        best = max(best, (sum(facts) / len(facts), _chart_text(chart)))
    return best


async def sheet_names(evidence: Evidence, path: str, names: Sequence[str]) -> Said:
    """The visible sheets are exactly these, in this order."""
    book = await _workbook(evidence, path)
    found = [name for name, sheet in book.sheets.items() if sheet.visible]
    return float(found == list(names)), f"sheets: {', '.join(found)}"


async def sheet_unchanged(evidence: Evidence, path: str, original: str, sheet: str, *, apart: Sequence[str] = ()) -> Said:
    """Typed-in values and formulas of a sheet are those of `original`, a file from setup that the agent left alone.

    `apart` names ranges that may differ.
    """
    first = evidence.record.initial.get(original)
    if first is None or first != evidence.record.files.get(original):
        raise NotInEvidence(f"`{original}` is not as setup left it, so `{path}` cannot be compared with it", kind="cut")
    before = read_workbook(evidence.read(original), original).sheet(sheet)
    after = await _sheet(evidence, path, sheet)
    if before is None:
        raise ValueError(f"`{original}` has no sheet `{sheet}`")
    free = [parse_area(each, sheet) for each in apart]
    places = sorted(at for at in {*before.cells, *after.cells} if not any(area.contains(sheet, *at) for area in free))
    wrong = [cell_name(*at) for at in places if _content(before.cells.get(at)) != _content(after.cells.get(at))]
    return float(not wrong), f"changed: {_some(wrong)}" if wrong else f"{len(places)} cells are the same"


async def table_rows(
    evidence: Evidence,
    path: str,
    start: str,
    rows: Sequence[Sequence[float | str | None]],
    *,
    ordered: bool = True,
    tolerance: float = 0.005,
) -> Said:
    """The rows from the cell `start` down to the first empty row: the share of right ones. Extra rows count as wrong."""
    area = parse_area(start)
    book = await recalculated(evidence, path)
    file = await _workbook(evidence, path)
    sheet = file.sheet(area.sheet)
    width = max((len(row) for row in rows), default=1)
    found: list[list[float | str | None]] = []
    while len(found) < _MAX_ROWS:
        row = area.top + len(found)
        line = [book.value(area.sheet, row, area.left + right) for right in range(width)]
        if all(value in {None, ""} for value in line):
            break
        found.append(line if sheet is None or sheet.shown(row, area.left) else [None] * width)
    right = _matched(found, rows, tolerance) if not ordered else [
        _same_row(line, want, tolerance) for line, want in zip(found, rows, strict=False)
    ]  # fmt: skip
    first = next((f"; row {area.top + place} is {_short(found[place])}" for place, good in enumerate(right) if not good), "")
    return sum(right) / max(
        len(found), len(rows), 1
    ), f"{sum(right)} of {len(rows)} rows are right, {len(found)} are there{first}"


async def page_setup(
    evidence: Evidence,
    path: str,
    sheet: str,
    *,
    landscape: bool | None = None,
    fit_to_width: bool | None = None,
    repeat_rows: str = "",
) -> Said:
    """The sheet prints in this orientation, scaled to the page's width, with these rows (`1:1`) repeated on every page."""
    found = await _sheet(evidence, path, sheet)
    facts = [] if landscape is None else [found.landscape == landscape]
    facts += [] if fit_to_width is None else [found.fit_to_width == fit_to_width]
    facts += [found.repeated_rows.rpartition("!")[2].replace("$", "") == repeat_rows] if repeat_rows else []
    text = f"landscape {found.landscape}, fits the width {found.fit_to_width}, repeats {found.repeated_rows or 'nothing'}"
    return sum(facts) / max(len(facts), 1), text


async def _workbook(evidence: Evidence, path: str) -> Workbook:
    data = await office_bytes(evidence, path)
    return read_workbook(data, path)


async def _sheet(evidence: Evidence, path: str, name: str) -> WorkSheet:
    book = await _workbook(evidence, path)
    sheet = book.sheet(name)
    if sheet is None:
        raise NotInEvidence(f"`{path}` has no sheet `{name}`; it has: {', '.join(book.sheets)}")
    return sheet


async def _each_cell(
    evidence: Evidence, path: str, cells: str, fits: Callable[[SheetCell], bool], text: Callable[[SheetCell], str]
) -> Said:
    area = parse_area(cells)
    book = await _workbook(evidence, path)
    wrong: list[str] = []
    for row, column in area.cells():
        cell = book.cell(area.sheet, row, column)
        filled = cell is not None and (cell.formula is not None or cell.value is not None)
        if cell is None or not filled or not fits(cell):
            wrong.append(f"{cell_name(row, column)} {text(cell) if cell is not None and filled else 'is empty'}")
    return _share(len(area.cells()), wrong)


def _share(total: int, wrong: Sequence[str]) -> Said:
    right = total - len(wrong)
    return right / max(total, 1), f"{right} of {total} are right" + (f"; {_some(wrong)}" if wrong else "")


def _some(items: Sequence[str]) -> str:
    return ", ".join(items[:_SHOWN]) + (f" and {len(items) - _SHOWN} more" if len(items) > _SHOWN else "") if items else "none"


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:80]}..."


def _same(found: float | str | None, wanted: float | str | None, tolerance: float) -> bool:
    """Equal as a reader would say: numbers within the tolerance, texts but for blanks around; a text is never a number."""
    if wanted is None:
        return found is None or found == ""
    if isinstance(wanted, str):
        return isinstance(found, str) and " ".join(found.split()) == " ".join(wanted.split())
    return isinstance(found, int | float) and math.isfinite(found) and abs(found - wanted) <= tolerance


def _same_row(found: Sequence[Any], wanted: Sequence[Any], tolerance: float) -> bool:
    padded = [*wanted, *[None] * (len(found) - len(wanted))]
    return all(_same(one, other, tolerance) for one, other in zip(found, padded, strict=True))


def _matched(found: Sequence[Sequence[Any]], rows: Sequence[Sequence[Any]], tolerance: float) -> list[bool]:
    """For every row found, True if a wanted row is like it; each wanted row counts once."""
    left = list(rows)
    right: list[bool] = []
    for line in found:
        place = next((place for place, want in enumerate(left) if _same_row(line, want, tolerance)), None)
        right.append(place is not None)
        if place is not None:
            del left[place]
    return right


def _content(cell: SheetCell | None) -> Any:
    if cell is None or (cell.formula is None and cell.value in {None, ""}):
        return None
    if cell.formula is not None:
        return plain_formula(cell.formula)
    return float(f"{cell.value:.12g}") if isinstance(cell.value, float) else cell.value


def _covered(area: Area, areas: Iterable[Area]) -> bool:
    return all(any(each.contains(area.sheet, *at) for each in areas) for at in area.cells())


def _same_area(found: str, wanted: str) -> bool:
    try:
        one, other = parse_area(found), parse_area(wanted)
    except ValueError:
        return False
    return (one.sheet.lower(), one.top, one.left, one.bottom, one.right) == (
        other.sheet.lower(), other.top, other.left, other.bottom, other.right,
    )  # fmt: skip


def _items(book: Workbook, formulas: Sequence[str], sheet: str) -> list[str]:
    text = formulas[0] if formulas else ""
    if text.startswith('"'):
        return [item.strip() for item in text.strip('"').split(",")]
    areas = book.areas_of(text, sheet)
    cells = [book.cell(area.sheet, *at) for area in areas[:1] for at in area.cells()[:1_000]]
    return [str(cell.value) for cell in cells if cell is not None and cell.value is not None]


def _is_format(code: str, kind: str) -> bool:
    first = code.partition(";")[0]
    plain = _NOT_SHOWN.sub("", first)
    return {
        "currency": bool(_CURRENCY.search(first)) and "0" in plain,
        "percent": "%" in plain,
        "date": bool(_DATE.search(plain)) and "0" not in plain,
        "time": "h" in plain.lower() or "[h" in first.lower(),
        "thousands": "#,##0" in plain,
        "integer": "0" in plain and "." not in plain and "%" not in plain,
        "two_decimals": bool(re.search(r"0\.00(?!0)", plain)),
        "text": plain == "@",
    }[kind]


def _plain(value: Any) -> Any:
    return value.casefold() if isinstance(value, str) else value


def _has_style(style: CellStyle, like: Mapping[str, Any]) -> bool:
    for name, value in like.items():
        if name == "border":
            fits = value in style.borders
        elif name == "fill" and value == "any":
            fits = style.fill not in {"", "FFFFFF"}
        else:
            fits = _plain(getattr(style, name)) == _plain(value)
        if not fits:
            return False
    return True


def _style_text(style: CellStyle) -> str:
    return f"bold {style.bold}, font {style.font} {style.size:g}, colour {style.color or '-'}, fill {style.fill or '-'}"


def _chart_text(chart: OfficeChart) -> str:
    ranges = ", ".join(series.values for series in chart.series)
    return f"{chart.kind} chart of {ranges}, title {chart.title!r}, axes {list(chart.axis_titles)}"
