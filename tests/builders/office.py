# ruff: noqa: E501 - XML
"""Office files for tests, part by part, so that a test can make one that no office program would write."""

import io
import zipfile

HIDDEN = ' state="hidden"'
MAIN = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
RELATIONS = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
PACKAGE = "http://schemas.openxmlformats.org/package/2006/relationships"
WORD = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
SLIDES = "http://schemas.openxmlformats.org/presentationml/2006/main"
DRAWING = "http://schemas.openxmlformats.org/drawingml/2006/main"
CHARTS = "http://schemas.openxmlformats.org/drawingml/2006/chart"


KINDS = {
    "xl/workbook.xml": "spreadsheetml.sheet.main",
    "xl/worksheets/": "spreadsheetml.worksheet",
    "xl/styles.xml": "spreadsheetml.styles",
    "word/document.xml": "wordprocessingml.document.main",
    "word/styles.xml": "wordprocessingml.styles",
    "ppt/presentation.xml": "presentationml.presentation.main",
    "ppt/slides/slide": "presentationml.slide",
}


def content_types(names: list[str]) -> str:
    rows = "".join(
        f'<Override PartName="/{name}" ContentType="application/vnd.openxmlformats-officedocument.{kind}+xml"/>'
        for name in names
        for start, kind in KINDS.items()
        if name.startswith(start)
    )
    package = "application/vnd.openxmlformats-package.relationships+xml"
    space = "http://schemas.openxmlformats.org/package/2006/content-types"
    return f'<Types xmlns="{space}"><Default Extension="rels" ContentType="{package}"/><Default Extension="xml" ContentType="application/xml"/>{rows}</Types>'


def zipped(parts: dict[str, str | bytes]) -> bytes:
    parts = {"[Content_Types].xml": content_types(list(parts))} | parts
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in parts.items():
            archive.writestr(name, data)
    return out.getvalue()


def relations(*targets: tuple[str, str]) -> str:
    rows = "".join(
        f'<Relationship Id="rId{n}" Type="{RELATIONS}/{kind}" Target="{to}"/>' for n, (kind, to) in enumerate(targets, 1)
    )
    return f'<Relationships xmlns="{PACKAGE}">{rows}</Relationships>'


def workbook_parts(sheets: dict[str, str], styles: str = "", names: str = "", hidden: tuple[str, ...] = ()) -> dict[str, str]:
    """Sheets by name, each the XML inside `<worksheet>`."""
    listed = "".join(
        f'<sheet name="{name}" sheetId="{n}" r:id="rId{n}"{HIDDEN if name in hidden else ""}/>'
        for n, name in enumerate(sheets, 1)
    )
    targets = [("worksheet", f"worksheets/sheet{n}.xml") for n in range(1, len(sheets) + 1)]
    return {
        "_rels/.rels": relations(("officeDocument", "xl/workbook.xml")),
        "xl/workbook.xml": f'<workbook xmlns="{MAIN}" xmlns:r="{RELATIONS}"><sheets>{listed}</sheets><definedNames>{names}</definedNames></workbook>',
        "xl/_rels/workbook.xml.rels": relations(*targets, ("styles", "styles.xml")),
        "xl/styles.xml": f'<styleSheet xmlns="{MAIN}">{styles or "<cellXfs><xf/></cellXfs>"}</styleSheet>',
    } | {
        f"xl/worksheets/sheet{n}.xml": f'<worksheet xmlns="{MAIN}" xmlns:r="{RELATIONS}">{xml}</worksheet>'
        for n, xml in enumerate(sheets.values(), 1)
    }


def workbook(sheets: dict[str, str], **more) -> bytes:
    return zipped(workbook_parts(sheets, **more))


def cells(**values: str | float) -> str:
    """`cells(A1=5, B1="=A1*2", C1="text")` as the rows of a sheet."""
    rows: dict[int, list[str]] = {}
    for name, value in values.items():
        row = int(name.lstrip("ABCDEFGHIJKLMNOPQRSTUVWXYZ"))
        if isinstance(value, str) and value.startswith("="):
            xml = f'<c r="{name}"><f>{value[1:]}</f><v>999</v></c>'
        elif isinstance(value, str):
            xml = f'<c r="{name}" t="inlineStr"><is><t>{value}</t></is></c>'
        else:
            xml = f'<c r="{name}"><v>{value}</v></c>'
        rows.setdefault(row, []).append(xml)
    return (
        "<sheetData>" + "".join(f'<row r="{row}">{"".join(found)}</row>' for row, found in sorted(rows.items())) + "</sheetData>"
    )


def document(body: str, styles: str = "", **parts: str) -> bytes:
    """A document with this XML inside `<w:body>`; more parts by path, with `__` for `/` and `_xml` at the end."""
    space = f'xmlns:w="{WORD}" xmlns:r="{RELATIONS}"'
    heading = '<w:style w:type="paragraph" w:styleId="Heading1"><w:name w:val="heading 1"/><w:pPr><w:outlineLvl w:val="0"/></w:pPr></w:style>'
    return zipped(
        {
            "_rels/.rels": relations(("officeDocument", "word/document.xml")),
            "word/document.xml": f"<w:document {space}><w:body>{body}</w:body></w:document>",
            "word/_rels/document.xml.rels": relations(
                ("styles", "styles.xml"), ("numbering", "numbering.xml"), ("footer", "footer1.xml")
            ),
            "word/styles.xml": f"<w:styles {space}>{heading}{styles}</w:styles>",
            "word/numbering.xml": f'<w:numbering {space}><w:abstractNum w:abstractNumId="0"><w:lvl w:ilvl="0"><w:numFmt w:val="bullet"/></w:lvl>'
            '</w:abstractNum><w:num w:numId="1"><w:abstractNumId w:val="0"/></w:num></w:numbering>',
            "word/footer1.xml": f"<w:ftr {space}>{parts.get('footer', '')}</w:ftr>",
        }
    )


def paragraph(text: str, about: str = "", run: str = "") -> str:
    return f"<w:p><w:pPr>{about}</w:pPr><w:r><w:rPr>{run}</w:rPr><w:t>{text}</w:t></w:r></w:p>"


def deck(*slides: str) -> bytes:
    """A deck of 720 by 540 points; each slide is the XML inside its shape tree."""
    space = f'xmlns:p="{SLIDES}" xmlns:a="{DRAWING}" xmlns:r="{RELATIONS}"'
    listed = "".join(f'<p:sldId id="{255 + n}" r:id="rId{n}"/>' for n in range(1, len(slides) + 1))
    parts = {
        "_rels/.rels": relations(("officeDocument", "ppt/presentation.xml")),
        "ppt/presentation.xml": f'<p:presentation {space}><p:sldIdLst>{listed}</p:sldIdLst><p:sldSz cx="9144000" cy="6858000"/></p:presentation>',
        "ppt/_rels/presentation.xml.rels": relations(*[("slide", f"slides/slide{n}.xml") for n in range(1, len(slides) + 1)]),
    }
    for number, xml in enumerate(slides, 1):
        parts[f"ppt/slides/slide{number}.xml"] = f"<p:sld {space}><p:cSld><p:spTree>{xml}</p:spTree></p:cSld></p:sld>"
    return zipped(parts)


def shape(text: str, holder: str = "", place: tuple[int, int, int, int] = (40, 40, 400, 100), size: int = 18) -> str:
    """A text shape; `place` in points."""
    x, y, width, height = (value * 12700 for value in place)
    kind = f'<p:ph type="{holder}"/>' if holder else ""
    return (
        f'<p:sp><p:nvSpPr><p:cNvPr id="2" name="Shape"/><p:cNvSpPr/><p:nvPr>{kind}</p:nvPr></p:nvSpPr><p:spPr><a:xfrm><a:off x="{x}" y="{y}"/>'
        f'<a:ext cx="{width}" cy="{height}"/></a:xfrm></p:spPr><p:txBody><a:bodyPr/><a:p><a:r><a:rPr sz="{size}00"/><a:t>{text}</a:t></a:r></a:p>'
        "</p:txBody></p:sp>"
    )
