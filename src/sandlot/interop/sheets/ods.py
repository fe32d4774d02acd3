"""OpenDocument spreadsheets: reading their texts, and writing new ones.

A cell or row may say that it is repeated a million times; only what is not empty counts, and too much of it is refused.
"""

import io
import zipfile
from collections.abc import Iterable, Mapping
from xml.etree.ElementTree import Element
from xml.sax.saxutils import escape, quoteattr

from sandlot.checks.office.archive import OfficeArchive, child, children
from sandlot.interop.sheets.xlsx import FIXED_TIME, xml_text

_SPACES = ("urn:oasis:names:tc:opendocument:xmlns:",)
_MAX_CELLS = 500_000
_TYPE = "application/vnd.oasis.opendocument.spreadsheet"
_OFFICE = (
    'xmlns:office="urn:oasis:names:tc:opendocument:xmlns:office:1.0" xmlns:table="urn:oasis:names:tc:opendocument:xmlns:table:1.0" '
    'xmlns:text="urn:oasis:names:tc:opendocument:xmlns:text:1.0" xmlns:style="urn:oasis:names:tc:opendocument:xmlns:style:1.0" '
    'xmlns:fo="urn:oasis:names:tc:opendocument:xmlns:xsl-fo-compatible:1.0" office:version="1.2"'
)
_STYLES = (
    '<office:automatic-styles><style:style style:name="head" style:family="table-cell"><style:text-properties fo:font-weight="bold"/>'
    '</style:style><style:style style:name="wrap" style:family="table-cell"><style:table-cell-properties fo:wrap-option="wrap"/>'
    "</style:style></office:automatic-styles>"
)

Texts = dict[tuple[int, int], tuple[str, bool]]
"""Text by row and column, and whether it is a formula."""


def read_ods_tables(data: bytes, what: str) -> tuple[list[tuple[str, Texts]], list[str]]:
    """The sheets by name with their texts, and notes on what is ignored. `NotInEvidence` if the file cannot be read."""
    archive = OfficeArchive(data, what, _SPACES)
    body = child(archive.tree("content.xml"), "body", "spreadsheet")
    if body is None:
        archive.refuse("is not a spreadsheet")
    notes = ["it has macros; they are ignored and never run"] if any(name.startswith("Basic/") for name in archive.names) else []
    tables = [(table.get("name", ""), _texts(archive, table)) for table in children(body, "table")]
    return tables, notes


def _texts(archive: OfficeArchive, table: Element) -> Texts:
    found: Texts = {}
    row = 1
    for element in _rows(table):
        cells = list(_cells(archive, element))
        times = _repeated(archive, element, "number-rows-repeated")
        if cells:
            if len(found) + times * len(cells) > _MAX_CELLS:
                archive.refuse(f"has more than {_MAX_CELLS:,} cells")
            for down in range(times):
                found.update({(row + down, column): value for column, value in cells})
        row += times
    return found


def _rows(table: Element) -> Iterable[Element]:
    """The rows, also those in groups and header groups."""
    for each in table:
        if each.tag == "table-row":
            yield each
        elif each.tag in {"table-row-group", "table-header-rows", "table-rows"}:
            yield from _rows(each)


def _cells(archive: OfficeArchive, row: Element) -> Iterable[tuple[int, tuple[str, bool]]]:
    column, filled = 1, 0
    for each in row:
        if each.tag not in {"table-cell", "covered-table-cell"}:
            continue
        times = _repeated(archive, each, "number-columns-repeated")
        value = _value(each)
        if value[0]:
            filled += times
            if filled > _MAX_CELLS:  # before they are made
                archive.refuse(f"has more than {_MAX_CELLS:,} cells")
            yield from ((column + right, value) for right in range(times))
        column += times


def _repeated(archive: OfficeArchive, element: Element, name: str) -> int:
    text = element.get(name, "1")
    if not text.isdecimal() or len(text) > 9 or int(text) < 1:
        archive.refuse(f"has a `{name}` of {text[:20]!r}")
    return int(text)


def _value(cell: Element) -> tuple[str, bool]:
    formula = cell.get("formula")
    if formula:
        return f"={formula.partition(':=')[2] or formula.lstrip('=')}", True
    match cell.get("value-type"):
        case "float" | "currency":
            return _number(cell.get("value", "")), False
        case "date":
            return cell.get("date-value", ""), False
        case "boolean":
            return cell.get("boolean-value", "").upper(), False
        case _:  # text, percentages and times as they are shown
            return "\n".join(_paragraph(each) for each in cell if each.tag == "p"), False


def _number(text: str) -> str:
    try:
        value = float(text)
    except ValueError:
        return text
    return str(int(value)) if value.is_integer() and abs(value) < 1e15 else repr(value)


def _paragraph(element: Element) -> str:
    pieces = [element.text or ""]
    for each in element:
        match each.tag:
            case "s":
                count = each.get("c", "1")
                pieces.append(" " * min(int(count) if count.isdecimal() else 1, 1000))
            case "tab":
                pieces.append("\t")
            case "line-break":
                pieces.append("\n")
            case "annotation":
                pass
            case _:
                pieces.append(_paragraph(each))
        pieces.append(each.tail or "")
    return "".join(pieces)


def ods_bytes(sheets: Mapping[str, list[list[str]]]) -> bytes:
    """A spreadsheet of texts and numbers; the first row of a sheet is its header. The same sheets give the same bytes."""
    tables = "".join(
        f"<table:table table:name={quoteattr(xml_text(name))}>{''.join(_row(row, number) for number, row in enumerate(rows))}</table:table>"
        for name, rows in sheets.items()
    )
    content = f"<office:document-content {_OFFICE}>{_STYLES}<office:body><office:spreadsheet>{tables}</office:spreadsheet></office:body></office:document-content>"
    space = "urn:oasis:names:tc:opendocument:xmlns:manifest:1.0"
    entries = "".join(
        f'<manifest:file-entry manifest:full-path="{name}" manifest:media-type="{kind}"/>'
        for name, kind in (("/", _TYPE), ("content.xml", "text/xml"))
    )
    parts = {
        "mimetype": _TYPE,
        "content.xml": f'<?xml version="1.0" encoding="UTF-8"?>\n{content}',
        "META-INF/manifest.xml": f'<?xml version="1.0" encoding="UTF-8"?>\n<manifest:manifest xmlns:manifest="{space}" manifest:version="1.2">{entries}</manifest:manifest>',
    }
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name, text in parts.items():
            packing = zipfile.ZIP_STORED if name == "mimetype" else zipfile.ZIP_DEFLATED  # the type must be readable as it is
            archive.writestr(zipfile.ZipInfo(name, FIXED_TIME), text, packing)
    return out.getvalue()


def _row(row: list[str], number: int) -> str:
    style = "head" if number == 0 else "wrap"
    cells = "".join(
        f'<table:table-cell table:style-name="{style}" office:value-type="string">{_paragraphs(text)}</table:table-cell>'
        if text
        else "<table:table-cell/>"
        for text in row
    )
    return f"<table:table-row>{cells or '<table:table-cell/>'}</table:table-row>"


def _paragraphs(text: str) -> str:
    """One paragraph per line; blanks are written so that none is lost."""
    lines = (escape(xml_text(line)).replace("\t", "<text:tab/>").replace("  ", " <text:s/>") for line in text.split("\n"))
    return "".join(f"<text:p>{line}</text:p>" for line in lines)
