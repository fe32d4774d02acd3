"""A text document (`.docx`) as its file has it: paragraphs with their styles, lists, tables, headers, fields, tracked changes.

What a reader cannot see (hidden text, white text, text of nearly no size) is left out of a paragraph's text. Inserted text that
is not yet accepted counts as text; deleted text does not.
"""

import dataclasses
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from xml.etree.ElementTree import Element

from sandlot.checks.office.archive import OfficeArchive, child, children, is_on, open_office, value_of

_MAX_STYLES = 20
"""Styles that are followed from one to the one it is based on."""
_SMALLEST = 4.0
"""Points; smaller text cannot be read."""


@dataclass(frozen=True, slots=True)
class TextStyle:
    """A style of paragraphs, or formatting at a paragraph: None where it says nothing."""

    name: str = ""
    based_on: str = ""
    level: int | None = None
    """Outline level from 1, of a heading."""
    font: str | None = None
    size: float | None = None
    bold: bool | None = None
    italic: bool | None = None
    color: str | None = None
    align: str | None = None
    line_spacing: float | None = None
    space_after: float | None = None
    numbering: str | None = None


@dataclass(slots=True)
class Paragraph:
    """One paragraph: its visible text, the name of its style, and its effective format."""

    text: str
    style: str
    format: TextStyle
    level: int | None = None
    list_kind: str = ""
    """`bullet` or `numbered`, empty outside of a list."""
    list_level: int = 0
    fields: str = ""
    """Codes of the fields in it, such as `PAGE` or `TOC \\o "1-3"`."""
    page_break: bool = False


@dataclass(frozen=True, slots=True)
class PageLayout:
    """Page size and margins of a section in millimetres, and the parts of its headers and footers."""

    width: float
    height: float
    margins: dict[str, float]
    columns: int


@dataclass(slots=True)
class DocTable:
    """A table: the texts of its cells, its style, and whether its first row is repeated on every page."""

    rows: list[list[str]]
    style: str
    header_repeats: bool
    borders: bool


@dataclass(slots=True)
class Document:
    """The body of a document in reading order, and what is around it."""

    what: str
    paragraphs: list[Paragraph] = field(default_factory=list[Paragraph])
    """Of the body, without those in tables."""
    tables: list[DocTable] = field(default_factory=list[DocTable])
    headers: list[Paragraph] = field(default_factory=list[Paragraph])
    footers: list[Paragraph] = field(default_factory=list[Paragraph])
    pages: list[PageLayout] = field(default_factory=list[PageLayout])
    insertions: list[str] = field(default_factory=list[str])
    deletions: list[str] = field(default_factory=list[str])
    comments: list[str] = field(default_factory=list[str])
    num_images: int = 0
    footnotes: list[str] = field(default_factory=list[str])
    styles: dict[str, TextStyle] = field(default_factory=dict[str, TextStyle])
    """By id."""
    tracks: bool = False
    """True if changes are being tracked."""

    @property
    def text(self) -> str:
        """All visible text, tables included, one paragraph or row per line."""
        lines = [paragraph.text for paragraph in self.paragraphs]
        return "\n".join([*lines, *("\t".join(row) for table in self.tables for row in table.rows)])


@lru_cache(maxsize=2)
def read_document(data: bytes, what: str) -> Document:
    """Parse a document; `NotInEvidence` if it cannot be."""
    archive = open_office(data, what)
    try:
        return _Reader(archive).read()
    except (ValueError, IndexError, KeyError, OverflowError) as error:
        archive.refuse(f"has values that no document has: {error!r}")


class _Reader:
    def __init__(self, archive: OfficeArchive) -> None:
        self.archive = archive
        self.main = archive.main_part("document")
        self.document = Document(archive.what)
        self.defaults = TextStyle()
        self.normal = ""
        for part in archive.related(self.main, "styles"):
            tree = archive.tree(part)
            self.defaults = _format(
                child(tree, "docDefaults", "pPrDefault", "pPr"), child(tree, "docDefaults", "rPrDefault", "rPr")
            )
            self.document.styles |= {each.get("styleId", ""): _style(each) for each in children(tree, "style")}
            self.normal = next((each.get("styleId", "") for each in children(tree, "style") if _is_default(each)), "")
        self.lists = self._lists()

    def read(self) -> Document:
        document, archive = self.document, self.archive
        body = child(archive.tree(self.main), "body")
        for each in _flat(body):
            if each.tag == "p":
                document.paragraphs.append(self._paragraph(each))
            elif each.tag == "tbl":
                document.tables.append(self._table(each))
        for tree in archive.tree(self.main).iter("sectPr"):
            document.pages.append(_page(tree))
        self._read_around(document)
        for tree in archive.tree(self.main).iter():
            if tree.tag in {"ins", "moveTo"}:
                document.insertions.append(_all_text(tree))
            elif tree.tag in {"del", "moveFrom"}:
                document.deletions.append(_all_text(tree))
            elif tree.tag == "blip":
                document.num_images += 1
        return document

    def _read_around(self, document: Document) -> None:
        """Headers, footers, comments, footnotes, settings."""
        archive = self.archive
        for kind, where in (("header", document.headers), ("footer", document.footers)):
            for part in archive.related(self.main, kind):
                where += [self._paragraph(each) for each in archive.tree(part).iter("p")]
        for part in archive.related(self.main, "comments"):
            document.comments += [_all_text(each) for each in children(archive.tree(part), "comment")]
        for part in archive.related(self.main, "footnotes"):
            document.footnotes += [_all_text(each) for each in children(archive.tree(part), "footnote") if not each.get("type")]
        document.tracks = any(is_on(archive.tree(part), "trackRevisions") for part in archive.related(self.main, "settings"))

    def _lists(self) -> dict[tuple[str, int], str]:
        """Numbering id and level -> `bullet` or `numbered`."""
        kinds: dict[tuple[str, int], str] = {}
        for part in self.archive.related(self.main, "numbering"):
            tree = self.archive.tree(part)
            abstract = {each.get("abstractNumId", ""): each for each in children(tree, "abstractNum")}
            for num in children(tree, "num"):
                for level in children(abstract.get(value_of(num, "abstractNumId")), "lvl"):
                    shape = value_of(level, "numFmt")
                    kind = "bullet" if shape == "bullet" else "" if shape == "none" else "numbered"
                    kinds[num.get("numId", ""), int(level.get("ilvl", "0"))] = kind
        return kinds

    def _paragraph(self, element: Element) -> Paragraph:
        about = child(element, "pPr")
        style_id = value_of(about, "pStyle", default=self.normal)
        style = self._effective(style_id)
        runs = [run for run in _runs(element) if _visible(child(run, "rPr"), style)]
        own = _format(about, child(runs[0], "rPr") if runs else None)
        level = own.level or style.level
        numbering, depth = (
            value_of(about, "numPr", "numId") or style.numbering or "",
            int(value_of(about, "numPr", "ilvl", default="0")),
        )
        return Paragraph(
            text="".join(_run_text(run) for run in runs).strip(),
            style=self.document.styles[style_id].name if style_id in self.document.styles else style_id,
            format=_over(own, style),
            level=level if level is not None and level <= 9 else None,
            list_kind=self.lists.get((numbering, depth), ""),
            list_level=depth,
            fields=" ".join(_fields(element)),
            page_break=any(each.get("type") == "page" for each in element.iter("br")) or is_on(about, "pageBreakBefore"),
        )

    def _effective(self, style_id: str) -> TextStyle:
        """A style with what it takes from the styles it is based on, and from the document's defaults."""
        found, steps = TextStyle(), 0
        while style_id in self.document.styles and steps < _MAX_STYLES:
            style = self.document.styles[style_id]
            found, style_id, steps = _over(found, style), style.based_on, steps + 1
        return _over(found, self.defaults)

    def _table(self, element: Element) -> DocTable:
        rows: list[list[str]] = []
        repeats = False
        for number, row in enumerate(each for each in _flat(element) if each.tag == "tr"):
            cells = [each for each in _flat(row) if each.tag == "tc"]
            rows.append([" ".join(self._paragraph(each).text for each in cell.iter("p")).strip() for cell in cells])
            repeats = repeats or (number == 0 and is_on(row, "trPr", "tblHeader"))
        style_id = value_of(element, "tblPr", "tblStyle")
        style = self.document.styles.get(style_id)
        return DocTable(rows, style.name if style else style_id, repeats, child(element, "tblPr", "tblBorders") is not None)


def _is_default(style: Element) -> bool:
    return style.get("type") == "paragraph" and style.get("default") in {"1", "true"}


def _flat(element: Element | None) -> Iterator[Element]:
    """Children, with content controls and inserted parts opened."""
    for each in element if element is not None else ():
        if each.tag in {"sdt", "sdtContent", "ins", "customXml", "moveTo", "smartTag"}:
            yield from _flat(each)
        else:
            yield each


def _runs(element: Element) -> Iterator[Element]:
    for each in element:
        if each.tag == "r":
            yield each
        elif each.tag in {"hyperlink", "ins", "sdt", "sdtContent", "fldSimple", "smartTag", "moveTo", "customXml"}:
            yield from _runs(each)


def _run_text(run: Element) -> str:
    marks = {"tab": "\t", "br": "\n", "noBreakHyphen": "-"}
    return "".join((each.text or "") if each.tag == "t" else marks.get(each.tag, "") for each in run)


def _all_text(element: Element) -> str:
    return "".join(each.text or "" for each in element.iter() if each.tag in {"t", "delText"})


def _fields(element: Element) -> Iterator[str]:
    """The code of each field. That of a complex field may be spread over runs, up to the next `fldChar`."""
    codes: list[str] = [each.get("instr", "") for each in element.iter("fldSimple")]
    codes.append("")
    for each in element.iter():
        if each.tag == "fldChar":
            codes.append("")
        elif each.tag == "instrText":
            codes[-1] += each.text or ""
    yield from (code.strip() for code in codes if code.strip())


def _visible(about: Element | None, style: TextStyle) -> bool:
    own = _format(None, about)
    shading = child(about, "shd")
    shaded = child(about, "highlight") is not None or (
        shading is not None and shading.get("fill", "auto") not in {"auto", "FFFFFF"}
    )
    white = (own.color or style.color) == "FFFFFF" and not shaded
    return not (is_on(about, "vanish") or white or (own.size or style.size or 11.0) < _SMALLEST)


def _style(element: Element) -> TextStyle:
    found = _format(child(element, "pPr"), child(element, "rPr"))
    name = value_of(element, "name")
    heading = re.fullmatch(r"heading (\d)", name, re.IGNORECASE)
    level = found.level or (int(heading[1]) if heading else None)
    numbering = value_of(element, "pPr", "numPr", "numId") or None
    return _over(TextStyle(name=name, based_on=value_of(element, "basedOn"), level=level, numbering=numbering), found)


def _format(paragraph: Element | None, run: Element | None) -> TextStyle:
    fonts, size, spacing = child(run, "rFonts"), value_of(run, "sz"), child(paragraph, "spacing")
    level = value_of(paragraph, "outlineLvl")
    color = value_of(run, "color").upper()
    return TextStyle(
        level=int(level) + 1 if level else None,
        font=(fonts.get("ascii") or fonts.get("hAnsi")) if fonts is not None else None,
        size=float(size) / 2 if size else None,
        bold=is_on(run, "b") if child(run, "b") is not None else None,
        italic=is_on(run, "i") if child(run, "i") is not None else None,
        color=color if color and color != "AUTO" else None,
        align={"start": "left", "end": "right"}.get(value_of(paragraph, "jc"), value_of(paragraph, "jc")) or None,
        line_spacing=_line_spacing(spacing),
        space_after=float(spacing.get("after", "0")) / 20 if spacing is not None and spacing.get("after") else None,
    )


def _line_spacing(spacing: Element | None) -> float | None:
    if spacing is None or not spacing.get("line") or spacing.get("lineRule", "auto") != "auto":
        return None
    return float(spacing.get("line", "240")) / 240


def _over(first: TextStyle, second: TextStyle) -> TextStyle:
    """The first style, with what it leaves open taken from the second."""
    open_fields = {
        each.name: getattr(second, each.name) for each in dataclasses.fields(TextStyle) if getattr(first, each.name) in {None, ""}
    }
    return dataclasses.replace(first, **open_fields | {"name": first.name, "based_on": first.based_on})


def _page(element: Element) -> PageLayout:
    size, margin, columns = child(element, "pgSz"), child(element, "pgMar"), child(element, "cols")
    margins = {side: _millimetres(margin, side) for side in ("top", "bottom", "left", "right")}
    num_columns = int(columns.get("num", "1")) if columns is not None else 1
    return PageLayout(_millimetres(size, "w"), _millimetres(size, "h"), margins, num_columns)


def _millimetres(element: Element | None, name: str) -> float:
    """A length in twentieths of a point."""
    return float(element.get(name, "0")) / 56.6929 if element is not None else 0.0
