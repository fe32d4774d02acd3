"""Workbooks as bytes: enough of `.xlsx` for the input files of the tasks. The same sheets give the same bytes."""

import zipfile
from dataclasses import dataclass, field
from io import BytesIO
from typing import Any
from xml.sax.saxutils import escape, quoteattr

STYLES = {
    "": (0, 0, 0),
    "bold": (0, 1, 0),
    "title": (0, 2, 0),
    "head": (0, 1, 2),
    "money": (164, 0, 0),
    "date": (165, 0, 0),
    "percent": (10, 0, 0),
    "text": (49, 0, 0),
    "input": (0, 3, 0),
    "grey": (0, 4, 0),
}
"""Name -> number format, font, fill; the indexes of `_STYLE_SHEET`."""
_STYLE_SHEET = (
    '<styleSheet xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main">'
    '<numFmts count="2"><numFmt numFmtId="164" formatCode="#,##0.00"/><numFmt numFmtId="165" formatCode="yyyy\\-mm\\-dd"/></numFmts>'
    '<fonts count="5"><font><sz val="10"/><name val="Arial"/></font><font><b/><sz val="10"/><name val="Arial"/></font>'
    '<font><b/><sz val="14"/><name val="Arial"/></font><font><sz val="10"/><color rgb="FF0000FF"/><name val="Arial"/></font>'
    '<font><i/><sz val="9"/><color rgb="FF808080"/><name val="Arial"/></font></fonts>'
    '<fills count="3"><fill><patternFill patternType="none"/></fill><fill><patternFill patternType="gray125"/></fill>'
    '<fill><patternFill patternType="solid"><fgColor rgb="FFD9E1F2"/></patternFill></fill></fills>'
    '<borders count="1"><border/></borders><cellStyleXfs count="1"><xf/></cellStyleXfs><cellXfs count="{count}">{xfs}</cellXfs>'
    '<cellStyles count="1"><cellStyle name="Normal" xfId="0" builtinId="0"/></cellStyles></styleSheet>'
)
_SPACE = 'xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"'
_RELATIONS = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
_PACKAGE = "http://schemas.openxmlformats.org/package/2006"
_TYPE = "application/vnd.openxmlformats-officedocument.spreadsheetml"
_HEAD = '<?xml version="1.0" encoding="UTF-8" standalone="yes"?>\n'


@dataclass
class Sheet:
    """One sheet. `put("B2", value, "money")`; a text that begins with `=` is a formula, and `cached` the value kept with it."""

    name: str
    cells: dict[tuple[int, int], tuple[Any, str, Any]] = field(default_factory=dict)
    widths: dict[int, float] = field(default_factory=dict)
    merged: list[str] = field(default_factory=list)
    hidden: bool = False

    def put(self, at: str, value: Any, style: str = "", cached: Any = None) -> "Sheet":
        self.cells[place(at)] = (value, style, cached)
        return self

    def rows(self, at: str, rows: list[list[Any]], styles: tuple[str, ...] = ()) -> "Sheet":
        top, left = place(at)
        for down, row in enumerate(rows):
            for right, value in enumerate(row):
                if value is not None:
                    style = styles[right] if right < len(styles) else ""
                    self.cells[top + down, left + right] = (value, style, None)
        return self


def place(at: str) -> tuple[int, int]:
    letters = at.rstrip("0123456789")
    column = 0
    for letter in letters:
        column = column * 26 + ord(letter) - 64
    return int(at[len(letters) :]), column


def name_of(row: int, column: int) -> str:
    letters = ""
    while column:
        column, rest = divmod(column - 1, 26)
        letters = chr(65 + rest) + letters
    return f"{letters}{row}"


def workbook(*sheets: Sheet, names: dict[str, str] | None = None) -> bytes:
    listed = "".join(
        f'<sheet name={quoteattr(sheet.name)} sheetId="{number}"{" state=" + quoteattr("hidden") if sheet.hidden else ""} '
        f'r:id="rId{number}"/>'
        for number, sheet in enumerate(sheets, start=1)
    )
    defined = "".join(f"<definedName name={quoteattr(name)}>{escape(text)}</definedName>" for name, text in (names or {}).items())
    relations = "".join(
        f'<Relationship Id="rId{number}" Type="{_RELATIONS}/worksheet" Target="worksheets/sheet{number}.xml"/>'
        for number in range(1, len(sheets) + 1)
    )
    last = len(sheets) + 1
    relations += f'<Relationship Id="rId{last}" Type="{_RELATIONS}/styles" Target="styles.xml"/>'
    xfs = "".join(
        f'<xf numFmtId="{form}" fontId="{font}" fillId="{fill}" borderId="0" xfId="0"/>' for form, font, fill in STYLES.values()
    )
    kinds = "".join(
        f'<Override PartName="/xl/worksheets/sheet{n}.xml" ContentType="{_TYPE}.worksheet+xml"/>' for n in range(1, last)
    )
    parts = {
        "[Content_Types].xml": f'<Types xmlns="{_PACKAGE}/content-types"><Default Extension="rels" '
        'ContentType="application/vnd.openxmlformats-package.relationships+xml"/><Default Extension="xml" ContentType="application/xml"/>'
        f'<Override PartName="/xl/workbook.xml" ContentType="{_TYPE}.sheet.main+xml"/>{kinds}'
        f'<Override PartName="/xl/styles.xml" ContentType="{_TYPE}.styles+xml"/></Types>',
        "_rels/.rels": f'<Relationships xmlns="{_PACKAGE}/relationships"><Relationship Id="rId1" Type="{_RELATIONS}/officeDocument" '
        'Target="xl/workbook.xml"/></Relationships>',
        "xl/workbook.xml": f'<workbook {_SPACE} xmlns:r="{_RELATIONS}"><sheets>{listed}</sheets>'
        f"{f'<definedNames>{defined}</definedNames>' if defined else ''}</workbook>",
        "xl/_rels/workbook.xml.rels": f'<Relationships xmlns="{_PACKAGE}/relationships">{relations}</Relationships>',
        "xl/styles.xml": _STYLE_SHEET.format(count=len(STYLES), xfs=xfs),
    } | {f"xl/worksheets/sheet{number}.xml": _sheet_xml(sheet) for number, sheet in enumerate(sheets, start=1)}
    return zipped(parts)


def zipped(parts: dict[str, str]) -> bytes:
    """The parts as a zip with a fixed time, so that equal parts are equal bytes."""
    out = BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in parts.items():
            archive.writestr(zipfile.ZipInfo(name, (2026, 1, 1, 0, 0, 0)), _HEAD + text, zipfile.ZIP_DEFLATED)
    return out.getvalue()


def _sheet_xml(sheet: Sheet) -> str:
    rows: dict[int, list[str]] = {}
    for (row, column), (value, style, cached) in sorted(sheet.cells.items()):
        rows.setdefault(row, []).append(_cell_xml(name_of(row, column), value, list(STYLES).index(style), cached))
    columns = "".join(
        f'<col min="{column}" max="{column}" width="{width}" customWidth="1"/>' for column, width in sorted(sheet.widths.items())
    )
    merged = "".join(f'<mergeCell ref="{area}"/>' for area in sheet.merged)
    data = "".join(f'<row r="{row}">{"".join(cells)}</row>' for row, cells in sorted(rows.items()))
    return (
        f"<worksheet {_SPACE}>{f'<cols>{columns}</cols>' if columns else ''}<sheetData>{data}</sheetData>"
        f"{f'<mergeCells>{merged}</mergeCells>' if merged else ''}</worksheet>"
    )


def _cell_xml(name: str, value: Any, style: int, cached: Any) -> str:
    if isinstance(value, str) and value.startswith("="):
        kept = "" if cached is None else f"<v>{escape(str(cached))}</v>"
        return f'<c r="{name}" s="{style}"><f>{escape(value[1:])}</f>{kept}</c>'
    if isinstance(value, str):
        return f'<c r="{name}" s="{style}" t="inlineStr"><is><t xml:space="preserve">{escape(value)}</t></is></c>'
    number = int(value) if float(value).is_integer() else value
    return f'<c r="{name}" s="{style}"><v>{number!r}</v></c>'
