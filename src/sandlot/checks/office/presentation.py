"""A slide deck (`.pptx`) as its file has it: slides in order, with layout, placeholders, texts, places and notes."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from xml.etree.ElementTree import Element

from sandlot.checks.office.archive import OfficeArchive, child, children, open_office
from sandlot.checks.office.chart import OfficeChart, read_chart

_POINTS = 12_700
"""English metric units in a point, the unit of shapes."""
_DEFAULT_SIZE = 18.0


@dataclass(frozen=True, slots=True)
class SlideShape:
    """A shape of a slide. Places in points; None if neither the shape nor its placeholder has one."""

    name: str
    kind: str
    """`text`, `picture`, `table`, `chart`, `group` or `other`."""
    placeholder: str
    """`title`, `body`, `ctrTitle`, `subTitle`, `ftr`, `sldNum`, ...; empty for a shape that is none."""
    lines: tuple[str, ...]
    """Texts of its paragraphs, empty ones left out."""
    size: float
    """Smallest font size of its text in points; 0 if the shape gives none."""
    place: tuple[float, float, float, float] | None
    """Left, top, width, height."""
    rows: tuple[tuple[str, ...], ...] = ()
    color: str = ""
    fitted: bool = False
    """True if its text shrinks to fit."""


@dataclass(slots=True)
class Slide:
    """One slide."""

    layout: str
    shapes: list[SlideShape] = field(default_factory=list[SlideShape])
    charts: list[OfficeChart] = field(default_factory=list[OfficeChart])
    notes: str = ""
    hidden: bool = False

    @property
    def title(self) -> str:
        """The text of the title placeholder; a text box that looks like a title is none."""
        return next((" ".join(shape.lines) for shape in self.shapes if shape.placeholder in {"title", "ctrTitle"}), "")

    @property
    def lines(self) -> list[str]:
        """All paragraphs outside of title, footer, date and number, tables included."""
        skipped = {"title", "ctrTitle", "ftr", "sldNum", "dt"}
        return [line for shape in self.shapes if shape.placeholder not in skipped for line in shape.lines]


@dataclass(slots=True)
class Presentation:
    """The slides in their order, and the size of a slide in points."""

    what: str
    width: float
    height: float
    slides: list[Slide]


@lru_cache(maxsize=2)
def read_presentation(data: bytes, what: str) -> Presentation:
    """Parse a deck; `NotInEvidence` if it cannot be."""
    archive = open_office(data, what)
    try:
        return _read(archive)
    except (ValueError, IndexError, KeyError, OverflowError) as error:
        archive.refuse(f"has values that no presentation has: {error!r}")


def _read(archive: OfficeArchive) -> Presentation:
    main = archive.main_part("presentation")
    tree, relations = archive.tree(main), archive.relations(main)
    size = child(tree, "sldSz")
    width, height = (float(size.get(side, "0")) / _POINTS if size is not None else 0.0 for side in ("cx", "cy"))
    slides = [_slide(archive, relations[each.get("r:id", "")][1]) for each in children(tree, "sldIdLst", "sldId")]
    return Presentation(archive.what, width, height, slides)


def _slide(archive: OfficeArchive, part: str) -> Slide:
    tree = archive.tree(part)
    layouts = archive.related(part, "slideLayout")
    inherited: dict[str, tuple[float, float, float, float]] = {}
    for each in [other for layout in layouts for other in (*archive.related(layout, "slideMaster"), layout)]:
        inherited |= _placeholder_places(archive.tree(each))
    slide = Slide(layout=_layout_name(archive, layouts), hidden=tree.get("show") == "0")
    slide.shapes = list(_shapes(child(tree, "cSld", "spTree"), inherited))
    slide.charts = [read_chart(archive.tree(chart)) for chart in archive.related(part, "chart")]
    for notes in archive.related(part, "notesSlide"):
        shapes = _shapes(child(archive.tree(notes), "cSld", "spTree"), {})
        slide.notes = "\n".join(line for shape in shapes if shape.placeholder == "body" for line in shape.lines)
    return slide


def _layout_name(archive: OfficeArchive, layouts: list[str]) -> str:
    about = child(archive.tree(layouts[0]), "cSld") if layouts else None
    return about.get("name", "") if about is not None else ""


def _placeholder_places(tree: Element) -> dict[str, tuple[float, float, float, float]]:
    found: dict[str, tuple[float, float, float, float]] = {}
    for shape in children(tree, "cSld", "spTree", "sp"):
        holder, place = child(shape, "nvSpPr", "nvPr", "ph"), _place(child(shape, "spPr"))
        if holder is not None and place is not None:
            found[holder.get("type", "body")] = place
            found[f"#{holder.get('idx', '0')}"] = place
    return found


def _shapes(tree: Element | None, inherited: dict[str, tuple[float, float, float, float]]) -> Iterator[SlideShape]:
    for each in tree if tree is not None else ():
        if each.tag == "grpSp":
            yield from _shapes(each, inherited)
        elif each.tag in {"sp", "pic", "graphicFrame"}:
            yield _shape(each, inherited)


def _shape(element: Element, inherited: dict[str, tuple[float, float, float, float]]) -> SlideShape:
    about = next((each for each in element if each.tag.startswith("nv")), None)
    holder, named = child(about, "nvPr", "ph"), child(about, "cNvPr")
    kind = holder.get("type", "body") if holder is not None else ""
    place = _place(child(element, "spPr")) or _place(element)
    if place is None and holder is not None:
        place = inherited.get(f"#{holder.get('idx', '0')}") or inherited.get(kind)
    body = child(element, "txBody")
    table = next(element.iter("tbl"), None)
    rows = tuple(tuple(" ".join(_lines(cell)) for cell in children(row, "tc")) for row in children(table, "tr"))
    runs = [each for each in element.iter() if each.tag in {"rPr", "defRPr"}]
    sizes = [float(each.get("sz", "0")) / 100 for each in runs if each.get("sz")]
    colors = [each.get("val", "").upper() for run in runs for each in run.iter("srgbClr")]
    what = {"pic": "picture", "sp": "text"}.get(element.tag, "table" if table is not None else "other")
    if any(each.tag == "chart" for each in element.iter()):
        what = "chart"
    lines = tuple(line for row in rows for line in row if line) if rows else _lines(body)
    fitted = child(body, "bodyPr", "normAutofit") is not None
    name = named.get("name", "") if named is not None else ""
    return SlideShape(name, what, kind, lines, min(sizes, default=0.0), place, rows, colors[0] if colors else "", fitted)


def _lines(element: Element | None) -> tuple[str, ...]:
    found = (
        ["".join(each.text or "" for each in line.iter("t")).strip() for line in element.iter("p")] if element is not None else []
    )
    return tuple(line for line in found if line)


def _place(element: Element | None) -> tuple[float, float, float, float] | None:
    frame = child(element, "xfrm")
    offset, size = child(frame, "off"), child(frame, "ext")
    if offset is None or size is None:
        return None
    x, y = (float(offset.get(name, "0")) / _POINTS for name in ("x", "y"))
    width, height = (float(size.get(name, "0")) / _POINTS for name in ("cx", "cy"))
    return x, y, width, height


def text_height(shape: SlideShape) -> float:
    """About how many points high the shape's text is: half a font size per character, 1.2 per line. An estimate."""
    if shape.place is None:
        return 0.0
    size = shape.size or _DEFAULT_SIZE
    per_line = max((shape.place[2] - 14) / (size * 0.5), 1)
    return sum(-(-len(line) // per_line) for line in shape.lines) * size * 1.2 + 7
