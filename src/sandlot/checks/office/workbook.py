"""A workbook (`.xlsx`) as its file has it: typed-in values, formulas, formats, names, tables, rules, charts.

Values of formulas are not read from the file: a program that writes it can put any number there. They come from a recalculation
(`recalculation.py`).
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from xml.etree.ElementTree import Element

from sandlot.checks.office.archive import OfficeArchive, child, children, is_on, open_office, value_of
from sandlot.checks.office.chart import OfficeChart, read_chart
from sandlot.checks.office.reference import Area, areas_in, cell_name, parse_area, shifted, words_in

_MAX_STEPS = 20_000
"""Formulas that are followed to find what a cell depends on."""
_BUILTIN_FORMATS = {
    0: "General", 1: "0", 2: "0.00", 3: "#,##0", 4: "#,##0.00", 9: "0%", 10: "0.00%", 11: "0.00E+00", 12: "# ?/?",
    14: "mm-dd-yy", 15: "d-mmm-yy", 16: "d-mmm", 17: "mmm-yy", 18: "h:mm AM/PM", 20: "h:mm", 21: "h:mm:ss", 22: "m/d/yy h:mm",
    37: "#,##0 ;(#,##0)", 38: "#,##0 ;[Red](#,##0)", 39: "#,##0.00;(#,##0.00)", 40: "#,##0.00;[Red](#,##0.00)",
    44: '"$"#,##0.00', 46: "[h]:mm:ss", 49: "@",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class CellStyle:
    """How a cell looks. Colours are `RRGGBB` in upper case, empty if the file gives none or a theme's."""

    number_format: str = "General"
    font: str = ""
    size: float = 0.0
    bold: bool = False
    italic: bool = False
    color: str = ""
    fill: str = ""
    align: str = ""
    wrap: bool = False
    borders: frozenset[str] = frozenset()
    locked: bool = True


@dataclass(frozen=True, slots=True)
class SheetCell:
    """One cell: a typed-in value or a formula."""

    value: float | str | bool | None
    """The typed-in value; None for a formula."""
    formula: str | None
    style: CellStyle


@dataclass(frozen=True, slots=True)
class FormatRule:
    """A conditional format: its kind (`cellIs`, `expression`, `colorScale`, ...), operator and formulas."""

    areas: tuple[Area, ...]
    kind: str
    operator: str
    formulas: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class CellValidation:
    """What may be typed into cells: its kind (`list`, `whole`, `decimal`, `date`, ...), operator and formulas."""

    areas: tuple[Area, ...]
    kind: str
    operator: str
    formulas: tuple[str, ...]


@dataclass(slots=True)
class WorkSheet:
    """One sheet of a workbook."""

    name: str
    visible: bool
    cells: dict[tuple[int, int], SheetCell] = field(default_factory=dict[tuple[int, int], SheetCell])
    merged: list[Area] = field(default_factory=list[Area])
    frozen: str = ""
    """The first cell that scrolls, such as `A2`; empty without frozen panes."""
    filter: Area | None = None
    tables: dict[str, Area] = field(default_factory=dict[str, Area])
    rules: list[FormatRule] = field(default_factory=list[FormatRule])
    validations: list[CellValidation] = field(default_factory=list[CellValidation])
    widths: dict[int, float] = field(default_factory=dict[int, float])
    hidden_rows: set[int] = field(default_factory=set[int])
    hidden_columns: set[int] = field(default_factory=set[int])
    charts: list[OfficeChart] = field(default_factory=list[OfficeChart])
    protected: bool = False
    landscape: bool = False
    fit_to_width: bool = False
    repeated_rows: str = ""

    def shown(self, row: int, column: int) -> bool:
        """True if a reader can see the cell: sheet, row and column are not hidden, and the text is not white on white."""
        if not self.visible or row in self.hidden_rows or column in self.hidden_columns:
            return False
        cell = self.cells.get((row, column))
        if cell is None:
            return True
        invisible = cell.style.color == "FFFFFF" and cell.style.fill in {"", "FFFFFF"}
        return not invisible and cell.style.number_format.replace('"', "") != ";;;"


@dataclass(slots=True)
class Workbook:
    """The sheets of a workbook in their order, and its defined names."""

    what: str
    sheets: dict[str, WorkSheet]
    names: dict[str, str]

    def sheet(self, name: str) -> WorkSheet | None:
        """The sheet of this name; case does not count."""
        return next((sheet for title, sheet in self.sheets.items() if title.lower() == name.lower()), None)

    def cell(self, sheet: str, row: int, column: int) -> SheetCell | None:
        """One cell, None if it is empty."""
        found = self.sheet(sheet)
        return found.cells.get((row, column)) if found is not None else None

    def areas_of(self, formula: str, sheet: str) -> list[Area]:
        """What a formula reads: cells, ranges, and the ranges of defined names and tables."""
        found = areas_in(formula, sheet)
        for word in words_in(formula):
            if word in self.names:
                found += areas_in(self.names[word], sheet)
            found += [area for each in self.sheets.values() for name, area in each.tables.items() if name.lower() == word]
        return found

    def reached(self, sheet: str, row: int, column: int) -> list[Area]:
        """Every range that the cell's formula reads, directly or through other formulas."""
        start = self.cell(sheet, row, column)
        waiting = [(sheet, start.formula)] if start is not None and start.formula else []
        seen: set[tuple[str, int, int]] = set()
        found: list[Area] = []
        while waiting and len(seen) < _MAX_STEPS:
            where, formula = waiting.pop()
            for area in self.areas_of(formula, where):
                found.append(area)
                for place, cell in self._formulas_in(area):
                    if place not in seen:
                        seen.add(place)
                        waiting.append((place[0], cell.formula or ""))
        return found

    def _formulas_in(self, area: Area) -> Iterator[tuple[tuple[str, int, int], SheetCell]]:
        sheet = self.sheet(area.sheet)
        if sheet is None:
            return
        size = (area.bottom - area.top + 1) * (area.right - area.left + 1)
        places = area.cells() if size < len(sheet.cells) else [at for at in sheet.cells if area.contains(sheet.name, *at)]
        for row, column in places:
            cell = sheet.cells.get((row, column))
            if cell is not None and cell.formula:
                yield (sheet.name, row, column), cell


@lru_cache(maxsize=2)
def read_workbook(data: bytes, what: str) -> Workbook:
    """Parse a workbook; `NotInEvidence` if it cannot be."""
    archive = open_office(data, what)
    try:
        return _read(archive)
    except (ValueError, IndexError, KeyError, OverflowError) as error:
        archive.refuse(f"has values that no workbook has: {error!r}")


def _read(archive: OfficeArchive) -> Workbook:
    main = archive.main_part("workbook")
    tree, relations = archive.tree(main), archive.relations(main)
    strings = [_text(item) for part in archive.related(main, "sharedStrings") for item in children(archive.tree(part), "si")]
    styles = [style for part in archive.related(main, "styles") for style in _styles(archive.tree(part))] or [CellStyle()]
    book = Workbook(archive.what, {}, {})
    for each in children(tree, "sheets", "sheet"):
        kind, part = relations[each.get("r:id", "")]
        name = each.get("name", "")
        if book.sheet(name) is not None:
            archive.refuse(f"has two sheets named `{name}`")
        sheet = WorkSheet(name, each.get("state", "visible") == "visible")
        book.sheets[name] = sheet
        if kind == "worksheet":
            _fill(archive, part, sheet, strings, styles)
    titles = list(book.sheets)
    for each in children(tree, "definedNames", "definedName"):
        name, local = each.get("name", ""), each.get("localSheetId")
        if name == "_xlnm.Print_Titles" and local is not None:
            book.sheets[titles[int(local)]].repeated_rows = each.text or ""
        elif not name.startswith("_xlnm."):
            book.names[name.lower()] = each.text or ""
    return book


def _fill(archive: OfficeArchive, part: str, sheet: WorkSheet, strings: list[str], styles: list[CellStyle]) -> None:
    tree = archive.tree(part)
    _fill_cells(tree, sheet, strings, styles)
    _fill_view(tree, sheet)
    sheet.merged = [parse_area(each.get("ref", ""), sheet.name) for each in children(tree, "mergeCells", "mergeCell")]
    for each in children(tree, "conditionalFormatting"):
        areas = _areas(each.get("sqref", ""), sheet.name)
        for rule in children(each, "cfRule"):
            formulas = tuple(formula.text or "" for formula in children(rule, "formula"))
            sheet.rules.append(FormatRule(areas, rule.get("type", ""), rule.get("operator", ""), formulas))
    for each in children(tree, "dataValidations", "dataValidation"):
        formulas = tuple(found.text or "" for name in ("formula1", "formula2") if (found := child(each, name)) is not None)
        kind, operator = each.get("type", "none"), each.get("operator", "between")
        sheet.validations.append(CellValidation(_areas(each.get("sqref", ""), sheet.name), kind, operator, formulas))
    for table in archive.related(part, "table"):
        about = archive.tree(table)
        sheet.tables[about.get("displayName", about.get("name", ""))] = parse_area(about.get("ref", ""), sheet.name)
    for drawing in archive.related(part, "drawing"):
        sheet.charts += [read_chart(archive.tree(chart)) for chart in archive.related(drawing, "chart")]


def _fill_cells(tree: Element, sheet: WorkSheet, strings: list[str], styles: list[CellStyle]) -> None:
    shared: dict[str, tuple[str, int, int]] = {}
    next_row = 1
    for row in children(tree, "sheetData", "row"):
        number = int(row.get("r", next_row))
        next_row, next_column = number + 1, 1
        if row.get("hidden") in {"1", "true"}:
            sheet.hidden_rows.add(number)
        for each in children(row, "c"):
            place = parse_area(each.get("r", cell_name(number, next_column)))
            at = (place.top, place.left)
            next_column = place.left + 1
            style = styles[int(each.get("s", "0"))]
            formula = _formula(child(each, "f"), at, shared)
            value = None if formula is not None else _value(each, strings)
            if at in sheet.cells:
                raise ValueError(f"two cells {cell_name(*at)} on sheet `{sheet.name}`")
            if formula is not None or value is not None or style != CellStyle():
                sheet.cells[at] = SheetCell(value, formula, style)


def _formula(element: Element | None, at: tuple[int, int], shared: dict[str, tuple[str, int, int]]) -> str | None:
    if element is None:
        return None
    if element.get("t") != "shared":
        return element.text or ""
    index = element.get("si", "")
    if element.text:
        shared[index] = (element.text, *at)
        return element.text
    text, row, column = shared[index]
    return shifted(text, at[0] - row, at[1] - column)


def _value(element: Element, strings: list[str]) -> float | str | bool | None:
    kind = element.get("t", "n")
    if kind == "inlineStr":
        return _text(child(element, "is"))
    found = child(element, "v")
    if found is None or found.text is None:
        return None
    match kind:
        case "s":
            return strings[int(found.text)]
        case "b":
            return found.text.strip() == "1"
        case "n":
            return float(found.text)
        case _:
            return found.text


def _text(element: Element | None) -> str:
    """The text of a shared or inline string; phonetic hints are left out."""
    if element is None:
        return ""
    runs = [each for each in element if each.tag in {"t", "r"}]
    return "".join((each.text or "") if each.tag == "t" else "".join(t.text or "" for t in children(each, "t")) for each in runs)


def _fill_view(tree: Element, sheet: WorkSheet) -> None:
    pane = child(tree, "sheetViews", "sheetView", "pane")
    if pane is not None and pane.get("state", "") in {"frozen", "frozenSplit"}:
        sheet.frozen = cell_name(int(float(pane.get("ySplit", "0"))) + 1, int(float(pane.get("xSplit", "0"))) + 1)
    for each in children(tree, "cols", "col"):
        first, last = int(each.get("min", "1")), min(int(each.get("max", "1")), 16_384)
        for column in range(first, last + 1):
            sheet.widths[column] = float(each.get("width", "8.43"))
            if each.get("hidden") in {"1", "true"}:
                sheet.hidden_columns.add(column)
    found = child(tree, "autoFilter")
    if found is not None:
        sheet.filter = parse_area(found.get("ref", ""), sheet.name)
    sheet.protected = (protection := child(tree, "sheetProtection")) is not None and protection.get("sheet") in {"1", "true"}
    setup = child(tree, "pageSetup")
    sheet.landscape = setup is not None and setup.get("orientation") == "landscape"
    fits = child(tree, "sheetPr", "pageSetUpPr")
    sheet.fit_to_width = fits is not None and fits.get("fitToPage") in {"1", "true"}


def _areas(text: str, sheet: str) -> tuple[Area, ...]:
    return tuple(parse_area(each, sheet) for each in text.split())


def _styles(tree: Element) -> Iterator[CellStyle]:
    formats = _BUILTIN_FORMATS | {
        int(each.get("numFmtId", "0")): each.get("formatCode", "") for each in children(tree, "numFmts", "numFmt")
    }
    fonts, fills = list(children(tree, "fonts", "font")), list(children(tree, "fills", "fill"))
    borders = list(children(tree, "borders", "border"))
    for each in children(tree, "cellXfs", "xf"):
        font = _numbered(fonts, each.get("fontId"))
        pattern = child(_numbered(fills, each.get("fillId")), "patternFill")
        align, protection = child(each, "alignment"), child(each, "protection")
        border = _numbered(borders, each.get("borderId"))
        yield CellStyle(
            number_format=formats.get(int(each.get("numFmtId", "0")), "General"),
            font=value_of(font, "name"),
            size=float(value_of(font, "sz", default="0")),
            bold=is_on(font, "b"),
            italic=is_on(font, "i"),
            color=_color(child(font, "color")),
            fill=_color(child(pattern, "fgColor")) if pattern is not None and pattern.get("patternType") == "solid" else "",
            align=align.get("horizontal", "") if align is not None else "",
            wrap=align is not None and align.get("wrapText") in {"1", "true"},
            borders=frozenset(side.tag for side in border if side.get("style", "none") != "none")
            if border is not None
            else frozenset(),
            locked=protection is None or protection.get("locked", "1") not in {"0", "false"},
        )


def _numbered(elements: list[Element], index: str | None) -> Element | None:
    number = int(index or "0")
    return elements[number] if 0 <= number < len(elements) else None


def _color(element: Element | None) -> str:
    if element is None:
        return ""
    if element.get("theme") == "0" and not element.get("tint"):
        return "FFFFFF"  # the first theme colour is the background of a sheet
    return element.get("rgb", "")[-6:].upper()
