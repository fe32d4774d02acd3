"""Workbooks: writing new ones, and adding cells to those of others.

`with_cells` changes only the bytes of the cells that it adds: the author's formats, widths, other sheets and formulas stay. It
finds its places with the parser that also refuses entities, and never builds XML from the file's own markup.
"""

import io
import re
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from xml.parsers import expat
from xml.sax.saxutils import escape, quoteattr

from sandlot.checks.office.archive import OfficeArchive, children
from sandlot.checks.office.reference import cell_name, column_letters, parse_area

FIXED_TIME = (1980, 1, 1, 0, 0, 0)
"""The time of every part of a written archive, so that the same content gives the same bytes."""
_FORBIDDEN = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Characters that XML 1.0 cannot hold."""
_HEAD = '<?xml version="1.0" encoding="UTF-8" standalone="yes"?>\n'
_MAIN = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
_RELATIONS = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
_PACKAGE = "http://schemas.openxmlformats.org/package/2006"
_KIND = "application/vnd.openxmlformats-officedocument.spreadsheetml"
_STYLES = (
    f'<styleSheet xmlns="{_MAIN}"><fonts count="2"><font><sz val="11"/><name val="Calibri"/></font>'
    '<font><b/><sz val="11"/><name val="Calibri"/></font></fonts>'
    '<fills count="3"><fill><patternFill patternType="none"/></fill><fill><patternFill patternType="gray125"/></fill>'
    '<fill><patternFill patternType="solid"><fgColor rgb="FFDDE7F3"/></patternFill></fill></fills>'
    '<borders count="1"><border/></borders><cellStyleXfs count="1"><xf/></cellStyleXfs><cellXfs count="3">'
    '<xf numFmtId="0" fontId="0" fillId="0" borderId="0" xfId="0"/>'
    '<xf numFmtId="49" fontId="1" fillId="2" borderId="0" xfId="0" applyFont="1" applyFill="1" applyNumberFormat="1"/>'
    '<xf numFmtId="49" fontId="0" fillId="0" borderId="0" xfId="0" applyNumberFormat="1" applyAlignment="1">'
    '<alignment vertical="top" wrapText="1"/></xf></cellXfs>'
    '<cellStyles count="1"><cellStyle name="Normal" xfId="0" builtinId="0"/></cellStyles></styleSheet>'
)
_MAX_LIST_CHARS = 255
"""Excel refuses a longer list of choices in a validation."""


def xml_text(text: str) -> str:
    """Text with U+FFFD in place of characters that XML cannot hold."""
    return _FORBIDDEN.sub("\ufffd", text)


@dataclass(frozen=True, slots=True)
class SheetPage:
    """One sheet to write: rows of text, the first of them the header."""

    name: str
    rows: list[list[str]]
    widths: Sequence[int] = ()
    choices: Mapping[int, str] = field(default_factory=dict[int, str])
    """By column: what may be chosen there, as `a,b,c` or as a range of another sheet, `Lists!$A$1:$A$9`."""


def xlsx_bytes(pages: Sequence[SheetPage]) -> bytes:
    """A workbook. All cells are texts, so nothing in it is a formula. The same pages give the same bytes."""
    numbers = range(1, len(pages) + 1)
    sheets = "".join(
        f'<sheet name={quoteattr(page.name)} sheetId="{n}" r:id="rId{n}"/>' for n, page in zip(numbers, pages, strict=True)
    )
    related = "".join(
        f'<Relationship Id="rId{n}" Type="{_RELATIONS}/worksheet" Target="worksheets/sheet{n}.xml"/>' for n in numbers
    )
    styled = f'<Relationship Id="rId{len(pages) + 1}" Type="{_RELATIONS}/styles" Target="styles.xml"/>'
    types = "".join(f'<Override PartName="/xl/worksheets/sheet{n}.xml" ContentType="{_KIND}.worksheet+xml"/>' for n in numbers)
    parts = {
        "[Content_Types].xml": f'<Types xmlns="{_PACKAGE}/content-types"><Default Extension="rels" '
        f'ContentType="application/vnd.openxmlformats-package.relationships+xml"/><Default Extension="xml" ContentType="application/xml"/>'
        f'<Override PartName="/xl/workbook.xml" ContentType="{_KIND}.sheet.main+xml"/>{types}'
        f'<Override PartName="/xl/styles.xml" ContentType="{_KIND}.styles+xml"/></Types>',
        "_rels/.rels": f'<Relationships xmlns="{_PACKAGE}/relationships"><Relationship Id="rId1" Type="{_RELATIONS}/officeDocument" '
        f'Target="xl/workbook.xml"/></Relationships>',
        "xl/workbook.xml": f'<workbook xmlns="{_MAIN}" xmlns:r="{_RELATIONS}"><sheets>{sheets}</sheets></workbook>',
        "xl/_rels/workbook.xml.rels": f'<Relationships xmlns="{_PACKAGE}/relationships">{related}{styled}</Relationships>',
        "xl/styles.xml": _STYLES,
    }
    parts |= {f"xl/worksheets/sheet{n}.xml": _sheet_xml(page) for n, page in zip(numbers, pages, strict=True)}
    return _zipped({name: (_HEAD + text).encode() for name, text in parts.items()})


def _zipped(parts: Mapping[str, bytes]) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name, data in parts.items():
            archive.writestr(zipfile.ZipInfo(name, FIXED_TIME), data, zipfile.ZIP_DEFLATED)
    return out.getvalue()


def _sheet_xml(page: SheetPage) -> str:
    rows = "".join(
        f'<row r="{number}">{"".join(_cell_xml(number, column, text, 1 if number == 1 else 2) for column, text in enumerate(row, 1) if text)}</row>'
        for number, row in enumerate(page.rows, 1)
    )
    columns = "".join(f'<col min="{n}" max="{n}" width="{width}" customWidth="1"/>' for n, width in enumerate(page.widths, 1))
    rules = "".join(
        f'<dataValidation type="list" allowBlank="1" sqref="{letters}2:{letters}2000"><formula1>{escape(_list(words))}</formula1></dataValidation>'
        for letters, words in ((column_letters(column), words) for column, words in page.choices.items())
    )
    return (
        f'<worksheet xmlns="{_MAIN}"><sheetViews><sheetView workbookViewId="0"><pane ySplit="1" topLeftCell="A2" activePane="bottomLeft" '
        f'state="frozen"/></sheetView></sheetViews>{f"<cols>{columns}</cols>" if columns else ""}<sheetData>{rows}</sheetData>'
        + (f'<dataValidations count="{len(page.choices)}">{rules}</dataValidations>' if rules else "")
        + "</worksheet>"
    )


def _list(words: str) -> str:
    if "!" in words:
        return words
    if len(words) > _MAX_LIST_CHARS:
        raise ValueError(f"a list of {len(words)} characters; give a range of a sheet")
    return f'"{words}"'


def _cell_xml(row: int, column: int, text: str, style: int | None = None) -> str:
    styled = f' s="{style}"' if style is not None else ""
    return (
        f'<c r="{cell_name(row, column)}"{styled} t="inlineStr"><is><t xml:space="preserve">{escape(xml_text(text))}</t></is></c>'
    )


# -- cells in a file of others -------------------------------------------------------------------------------------------------


def with_cells(data: bytes, what: str, texts: Mapping[str, Mapping[tuple[int, int], str]]) -> bytes:
    """The workbook with these texts, by sheet, row and column, in place of what the cells have.

    Everything else stays byte for byte. `NotInEvidence` if the file cannot be read.
    """
    archive = OfficeArchive(data, what)
    main = archive.main_part("workbook")
    relations = archive.relations(main)
    places = {
        each.get("name", "").lower(): relations[each.get("r:id", "")][1]
        for each in children(archive.tree(main), "sheets", "sheet")
    }
    changed = {
        places[name.lower()]: _changed_part(archive, places[name.lower()], cells) for name, cells in texts.items() if cells
    }
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as target:
        for name, info in archive.names.items():
            content = changed[name] if name in changed else archive.read(name)
            target.writestr(zipfile.ZipInfo(info.filename.lstrip("/"), info.date_time), content, zipfile.ZIP_DEFLATED)
    return out.getvalue()


def _changed_part(archive: OfficeArchive, part: str, texts: Mapping[tuple[int, int], str]) -> bytes:
    archive.tree(part)  # refuses what may not be parsed
    data = archive.read(part)
    places = _CellPlaces(data)
    missing = sorted({row for row, _ in texts} - places.rows.keys())
    if missing:
        archive.refuse(f"has no row {missing[0]} in `{part}`")
    edits: list[tuple[int, int, bytes]] = []
    for (row, column), text in texts.items():
        found = _cell_xml(row, column, text).replace("<", f"<{places.prefix}").replace(f"<{places.prefix}/", f"</{places.prefix}")
        start, end = places.cells.get((row, column)) or (places.before(row, column),) * 2
        edits.append((start, end, found.encode(places.encoding)))
    for start, end, found in sorted(edits, reverse=True):
        data = data[:start] + found + data[end:]
    return _without_hints(data, places)


def _without_hints(data: bytes, places: "_CellPlaces") -> bytes:
    """Without the used range and the spans of rows, which the new cells exceed. Both are optional."""
    data = re.sub(rb"<(\w+:)?dimension\b[^<>]*/>", b"", data, count=1)
    return re.sub(rb'(<(?:\w+:)?row\b[^<>]*?) spans="[\d: ]*"', rb"\1", data) if places.rows else data


class _CellPlaces:
    """Where cells and the ends of rows are in the bytes of a sheet."""

    encoding = "utf-8"

    def __init__(self, data: bytes) -> None:
        self.rows: dict[int, int] = {}
        """Row -> where its end tag begins."""
        self.cells: dict[tuple[int, int], tuple[int, int]] = {}
        self.prefix = ""
        self._data = data
        self._row = 0
        self._cell: tuple[tuple[int, int], int] | None = None
        self._next_column = 1
        self._parser = expat.ParserCreate(encoding="utf-8")
        self._parser.StartElementHandler = self._start
        self._parser.EndElementHandler = self._end
        self._parser.Parse(data, True)  # noqa: FBT003 - expat takes no keywords

    def before(self, row: int, column: int) -> int:
        """Where a new cell belongs: before the first one to its right, else at the end of the row."""
        later = [start for (at, other), (start, _) in self.cells.items() if at == row and other > column]
        return min(later, default=self.rows[row])

    def _start(self, tag: str, attributes: dict[str, str]) -> None:
        prefix, _, local = tag.rpartition(":")
        if local == "row":
            self.prefix = f"{prefix}:" if prefix else ""
            self._row, self._next_column = int(attributes.get("r", self._row + 1)), 1
        elif local == "c" and self._row:
            area = parse_area(attributes.get("r", cell_name(self._row, self._next_column)))
            self._next_column = area.left + 1
            self._cell = ((area.top, area.left), self._parser.CurrentByteIndex)

    def _end(self, tag: str) -> None:
        local = tag.rpartition(":")[2]
        at = self._parser.CurrentByteIndex
        if local == "c" and self._cell is not None:
            self.cells[self._cell[0]] = (self._cell[1], self._after(at))
            self._cell = None
        elif local == "row" and self._data[at : at + 2] == b"</":  # a row without cells has no place for one
            self.rows[self._row] = at

    def _after(self, at: int) -> int:
        return self._data.index(b">", at) + 1
