"""Slide decks as bytes: enough of `.pptx` for the input files of the tasks. The same slides give the same bytes."""

from dataclasses import dataclass, field
from xml.sax.saxutils import escape, quoteattr

from .xlsx import zipped

_SLIDES = "http://schemas.openxmlformats.org/presentationml/2006/main"
_DRAWING = "http://schemas.openxmlformats.org/drawingml/2006/main"
_RELATIONS = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
_PACKAGE = "http://schemas.openxmlformats.org/package/2006"
_TYPE = "application/vnd.openxmlformats-officedocument.presentationml"
_SPACE = f'xmlns:p="{_SLIDES}" xmlns:a="{_DRAWING}" xmlns:r="{_RELATIONS}"'
_TREE = '<p:nvGrpSpPr><p:cNvPr id="1" name=""/><p:cNvGrpSpPr/><p:nvPr/></p:nvGrpSpPr><p:grpSpPr/>'
LAYOUTS = {
    "Title Slide": (("ctrTitle", 0, (60, 150, 600, 100)), ("subTitle", 1, (60, 270, 600, 80))),
    "Title and Content": (("title", 0, (40, 30, 640, 80)), ("body", 1, (40, 130, 640, 360))),
    "Title Only": (("title", 0, (40, 30, 640, 80)),),
}
"""Layout -> its placeholders: kind, index, place in points. A slide has 720 by 540 points."""


@dataclass
class Slide:
    layout: str
    title: str | None
    lines: list[str] = field(default_factory=list)
    boxes: list[tuple[str, tuple[int, int, int, int], int]] = field(default_factory=list)
    """Free text boxes: text, place, font size."""
    notes: str = ""
    table: list[list[str]] = field(default_factory=list)
    body_place: tuple[int, int, int, int] | None = None
    body_size: int = 0


def frame(place: tuple[int, int, int, int], tag: str = "a:xfrm") -> str:
    x, y, width, height = (value * 12700 for value in place)
    return f'<{tag}><a:off x="{x}" y="{y}"/><a:ext cx="{width}" cy="{height}"/></{tag}>'


def text_body(lines: list[str], size: int = 0) -> str:
    about = f'<a:rPr lang="en-GB" sz="{size * 100}"/>' if size else '<a:rPr lang="en-GB"/>'
    paragraphs = "".join(f"<a:p><a:r>{about}<a:t>{escape(line)}</a:t></a:r></a:p>" for line in lines) or "<a:p/>"
    return f"<p:txBody><a:bodyPr/><a:lstStyle/>{paragraphs}</p:txBody>"


def shape(number: int, name: str, body: str, holder: str = "", place: tuple[int, int, int, int] | None = None) -> str:
    where = (
        f"{frame(place)}{'' if holder else '<a:prstGeom prst=' + quoteattr('rect') + '><a:avLst/></a:prstGeom>'}" if place else ""
    )
    box = "" if holder else ' txBox="1"'
    return f'<p:sp><p:nvSpPr><p:cNvPr id="{number}" name={quoteattr(name)}/><p:cNvSpPr{box}/><p:nvPr>{holder}</p:nvPr></p:nvSpPr><p:spPr>{where}</p:spPr>{body}</p:sp>'


def holder(kind: str, index: int) -> str:
    return f'<p:ph type="{kind}"{f" idx={quoteattr(str(index))}" if index else ""}/>'


def table_frame(number: int, rows: list[list[str]], place: tuple[int, int, int, int]) -> str:
    width = place[2] * 12700 // len(rows[0])
    grid = "".join(f'<a:gridCol w="{width}"/>' for _ in rows[0])
    cell = '<a:tc><a:txBody><a:bodyPr/><a:lstStyle/><a:p><a:r><a:rPr lang="en-GB" sz="1400"/><a:t>{}</a:t></a:r></a:p></a:txBody><a:tcPr/></a:tc>'
    lines = "".join(f'<a:tr h="370840">{"".join(cell.format(escape(text)) for text in row)}</a:tr>' for row in rows)
    return (
        f'<p:graphicFrame><p:nvGraphicFramePr><p:cNvPr id="{number}" name="Table {number}"/><p:cNvGraphicFramePr/><p:nvPr/></p:nvGraphicFramePr>'
        f'{frame(place, "p:xfrm")}<a:graphic><a:graphicData uri="http://schemas.openxmlformats.org/drawingml/2006/table"><a:tbl><a:tblPr/>'
        f"<a:tblGrid>{grid}</a:tblGrid>{lines}</a:tbl></a:graphicData></a:graphic></p:graphicFrame>"
    )


def slide_xml(slide: Slide) -> str:
    shapes, number = [], 2
    for kind, index, _ in LAYOUTS[slide.layout]:
        title = kind in {"title", "ctrTitle"}
        if title and slide.title is None:
            continue
        body = text_body([slide.title] if title else slide.lines, 0 if title else slide.body_size)
        shapes.append(
            shape(number, "Title" if title else "Content", body, holder(kind, index), None if title else slide.body_place)
        )
        number += 1
    for text, place, size in slide.boxes:
        shapes.append(shape(number, f"TextBox {number}", text_body([text], size), "", place))
        number += 1
    if slide.table:
        shapes.append(table_frame(number, slide.table, (60, 200, 600, 200)))
    return f"<p:sld {_SPACE}><p:cSld><p:spTree>{_TREE}{''.join(shapes)}</p:spTree></p:cSld><p:clrMapOvr><a:masterClrMapping/></p:clrMapOvr></p:sld>"


def _layout_xml(name: str) -> str:
    shapes = "".join(
        shape(n + 2, kind, text_body([]), holder(kind, index), place) for n, (kind, index, place) in enumerate(LAYOUTS[name])
    )
    return f"<p:sldLayout {_SPACE}><p:cSld name={quoteattr(name)}><p:spTree>{_TREE}{shapes}</p:spTree></p:cSld><p:clrMapOvr><a:masterClrMapping/></p:clrMapOvr></p:sldLayout>"


def _relations(*targets: tuple[str, str]) -> str:
    rows = "".join(
        f'<Relationship Id="rId{n}" Type="{_RELATIONS}/{kind}" Target="{to}"/>' for n, (kind, to) in enumerate(targets, 1)
    )
    return f'<Relationships xmlns="{_PACKAGE}/relationships">{rows}</Relationships>'


_COLORS = "".join(
    f'<a:{name}><a:srgbClr val="{value}"/></a:{name}>'
    for name, value in zip(
        ("dk1", "lt1", "dk2", "lt2", "accent1", "accent2", "accent3", "accent4", "accent5", "accent6", "hlink", "folHlink"),
        ("000000", "FFFFFF", "1F497D", "EEECE1", "4F81BD", "C0504D", "9BBB59", "8064A2", "4BACC6", "F79646", "0000FF", "800080"),
        strict=True,
    )
)
_FONTS = '<a:majorFont><a:latin typeface="Liberation Sans"/><a:ea typeface=""/><a:cs typeface=""/></a:majorFont><a:minorFont><a:latin typeface="Liberation Sans"/><a:ea typeface=""/><a:cs typeface=""/></a:minorFont>'
_FILL = '<a:solidFill><a:schemeClr val="phClr"/></a:solidFill>'
_LINE = f'<a:ln w="9525">{_FILL}</a:ln>'
_THEME = (
    f'<a:theme xmlns:a="{_DRAWING}" name="House"><a:themeElements><a:clrScheme name="House">{_COLORS}</a:clrScheme><a:fontScheme name="House">{_FONTS}</a:fontScheme>'
    f'<a:fmtScheme name="House"><a:fillStyleLst>{_FILL * 3}</a:fillStyleLst><a:lnStyleLst>{_LINE * 3}</a:lnStyleLst><a:effectStyleLst>'
    f"{'<a:effectStyle><a:effectLst/></a:effectStyle>' * 3}</a:effectStyleLst><a:bgFillStyleLst>{_FILL * 3}</a:bgFillStyleLst></a:fmtScheme></a:themeElements></a:theme>"
)
_MAP = '<p:clrMap bg1="lt1" tx1="dk1" bg2="lt2" tx2="dk2" accent1="accent1" accent2="accent2" accent3="accent3" accent4="accent4" accent5="accent5" accent6="accent6" hlink="hlink" folHlink="folHlink"/>'


def deck(*slides: Slide) -> bytes:
    """A deck with three layouts (the numbers of `LAYOUTS`) and these slides."""
    layouts = list(LAYOUTS)
    listed = "".join(f'<p:sldLayoutId id="{2147483649 + n}" r:id="rId{n + 1}"/>' for n in range(len(layouts)))
    holders = shape(2, "Title", text_body([]), holder("title", 0), (40, 30, 640, 80)) + shape(
        3, "Body", text_body([]), holder("body", 1), (40, 130, 640, 360)
    )
    ids = "".join(f'<p:sldId id="{256 + n}" r:id="rId{n + 2}"/>' for n in range(len(slides)))
    parts = {
        "_rels/.rels": _relations(("officeDocument", "ppt/presentation.xml")),
        "ppt/presentation.xml": f'<p:presentation {_SPACE}><p:sldMasterIdLst><p:sldMasterId id="2147483648" r:id="rId1"/></p:sldMasterIdLst>'
        f"<p:sldIdLst>{ids}</p:sldIdLst>"
        '<p:sldSz cx="9144000" cy="6858000"/><p:notesSz cx="6858000" cy="9144000"/></p:presentation>',
        "ppt/_rels/presentation.xml.rels": _relations(
            ("slideMaster", "slideMasters/slideMaster1.xml"),
            *[("slide", f"slides/slide{n}.xml") for n in range(1, len(slides) + 1)],
        ),
        "ppt/slideMasters/slideMaster1.xml": f"<p:sldMaster {_SPACE}><p:cSld><p:spTree>{_TREE}{holders}</p:spTree></p:cSld>{_MAP}<p:sldLayoutIdLst>{listed}</p:sldLayoutIdLst></p:sldMaster>",
        "ppt/slideMasters/_rels/slideMaster1.xml.rels": _relations(
            *[("slideLayout", f"../slideLayouts/slideLayout{n}.xml") for n in range(1, 4)], ("theme", "../theme/theme1.xml")
        ),
        "ppt/theme/theme1.xml": _THEME,
    }
    for number, name in enumerate(layouts, 1):
        parts[f"ppt/slideLayouts/slideLayout{number}.xml"] = _layout_xml(name)
        parts[f"ppt/slideLayouts/_rels/slideLayout{number}.xml.rels"] = _relations(
            ("slideMaster", "../slideMasters/slideMaster1.xml")
        )
    for number, slide in enumerate(slides, 1):
        parts[f"ppt/slides/slide{number}.xml"] = slide_xml(slide)
        targets = [("slideLayout", f"../slideLayouts/slideLayout{layouts.index(slide.layout) + 1}.xml")]
        if slide.notes:
            targets.append(("notesSlide", f"../notesSlides/notesSlide{number}.xml"))
            notes = shape(2, "Notes", text_body([slide.notes]), holder("body", 1))
            parts[f"ppt/notesSlides/notesSlide{number}.xml"] = (
                f"<p:notes {_SPACE}><p:cSld><p:spTree>{_TREE}{notes}</p:spTree></p:cSld></p:notes>"
            )
            parts[f"ppt/notesSlides/_rels/notesSlide{number}.xml.rels"] = _relations(("slide", f"../slides/slide{number}.xml"))
        parts[f"ppt/slides/_rels/slide{number}.xml.rels"] = _relations(*targets)
    kinds = {
        "presentation.xml": "presentation.main",
        "slideMasters": "slideMaster",
        "slideLayouts": "slideLayout",
        "slides/": "slide",
        "notesSlides": "notesSlide",
    }
    theme = "application/vnd.openxmlformats-officedocument.theme+xml"
    types = {
        name: next((f"{_TYPE}.{kind}+xml" for word, kind in kinds.items() if f"ppt/{word}" in name), theme) for name in parts
    }
    typed = "".join(f'<Override PartName="/{name}" ContentType="{types[name]}"/>' for name in parts if name.endswith(".xml"))
    head = f'<Types xmlns="{_PACKAGE}/content-types"><Default Extension="rels" ContentType="application/vnd.openxmlformats-package.relationships+xml"/><Default Extension="xml" ContentType="application/xml"/>{typed}</Types>'
    return zipped({"[Content_Types].xml": head} | parts)
