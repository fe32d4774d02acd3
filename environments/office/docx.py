"""Documents as bytes: enough of `.docx` for the input files of the tasks. The same paragraphs give the same bytes."""

from xml.sax.saxutils import escape, quoteattr

from .xlsx import zipped

_WORD = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
_RELATIONS = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
_PACKAGE = "http://schemas.openxmlformats.org/package/2006"
_TYPE = "application/vnd.openxmlformats-officedocument.wordprocessingml"
_SPACE = f'xmlns:w="{_WORD}" xmlns:r="{_RELATIONS}"'
_HEADINGS = "".join(
    f'<w:style w:type="paragraph" w:styleId="Heading{level}"><w:name w:val="heading {level}"/><w:basedOn w:val="Normal"/><w:next w:val="Normal"/>'
    f'<w:pPr><w:keepNext/><w:outlineLvl w:val="{level - 1}"/></w:pPr><w:rPr><w:b/><w:sz w:val="{36 - 4 * level}"/></w:rPr></w:style>'
    for level in (1, 2, 3)
)
_STYLES = (
    f'<w:styles {_SPACE}><w:docDefaults><w:rPrDefault><w:rPr><w:rFonts w:ascii="Times New Roman" w:hAnsi="Times New Roman"/><w:sz w:val="22"/></w:rPr>'
    '</w:rPrDefault><w:pPrDefault/></w:docDefaults><w:style w:type="paragraph" w:default="1" w:styleId="Normal"><w:name w:val="Normal"/></w:style>'
    f'{_HEADINGS}<w:style w:type="paragraph" w:styleId="Title"><w:name w:val="Title"/><w:basedOn w:val="Normal"/><w:rPr><w:sz w:val="48"/></w:rPr></w:style>'
    '<w:style w:type="paragraph" w:styleId="ListBullet"><w:name w:val="List Bullet"/><w:basedOn w:val="Normal"/><w:pPr><w:numPr><w:numId w:val="1"/></w:numPr></w:pPr></w:style>'
    '<w:style w:type="paragraph" w:styleId="ListNumber"><w:name w:val="List Number"/><w:basedOn w:val="Normal"/><w:pPr><w:numPr><w:numId w:val="2"/></w:numPr></w:pPr></w:style>'
    '<w:style w:type="table" w:default="1" w:styleId="TableNormal"><w:name w:val="Normal Table"/></w:style>'
    '<w:style w:type="table" w:styleId="TableGrid"><w:name w:val="Table Grid"/><w:basedOn w:val="TableNormal"/></w:style></w:styles>'
)
_NUMBERING = (
    f"<w:numbering {_SPACE}>"
    + "".join(
        f'<w:abstractNum w:abstractNumId="{n}"><w:lvl w:ilvl="0"><w:start w:val="1"/><w:numFmt w:val="{kind}"/><w:lvlText w:val="{text}"/>'
        '<w:pPr><w:ind w:left="720" w:hanging="360"/></w:pPr></w:lvl></w:abstractNum>'
        for n, (kind, text) in enumerate((("bullet", "\u2022"), ("decimal", "%1.")))
    )
    + '<w:num w:numId="1"><w:abstractNumId w:val="0"/></w:num><w:num w:numId="2"><w:abstractNumId w:val="1"/></w:num></w:numbering>'
)
_DAY = "2026-02-03T10:00:00Z"


def run(text: str, *, bold: bool = False, italic: bool = False, size: int = 0) -> str:
    about = ("<w:b/>" if bold else "") + ("<w:i/>" if italic else "") + (f'<w:sz w:val="{size * 2}"/>' if size else "")
    return f'<w:r>{f"<w:rPr>{about}</w:rPr>" if about else ""}<w:t xml:space="preserve">{escape(text)}</w:t></w:r>'


def inserted(text: str, author: str, number: int) -> str:
    return f'<w:ins w:id="{number}" w:author={quoteattr(author)} w:date="{_DAY}">{run(text)}</w:ins>'


def deleted(text: str, author: str, number: int) -> str:
    inner = f'<w:r><w:delText xml:space="preserve">{escape(text)}</w:delText></w:r>'
    return f'<w:del w:id="{number}" w:author={quoteattr(author)} w:date="{_DAY}">{inner}</w:del>'


def para(content: str, style: str = "", *, raw: bool = False, **look) -> str:
    """One paragraph of a text, or of runs with `raw`."""
    inner = content if raw else run(content, **look)
    return f"<w:p>{f'<w:pPr><w:pStyle w:val={quoteattr(style)}/></w:pPr>' if style else ''}{inner}</w:p>"


def table(rows: list[list[str]]) -> str:
    cell = '<w:tc><w:tcPr><w:tcW w:w="2400" w:type="dxa"/></w:tcPr>{}</w:tc>'
    grid = "".join('<w:gridCol w:w="2400"/>' for _ in rows[0])
    lines = "".join(f"<w:tr>{''.join(cell.format(para(text)) for text in row)}</w:tr>" for row in rows)
    return f'<w:tbl><w:tblPr><w:tblStyle w:val="TableGrid"/><w:tblW w:w="0" w:type="auto"/></w:tblPr><w:tblGrid>{grid}</w:tblGrid>{lines}</w:tbl>'


def document(*body: str) -> bytes:
    """A document of these paragraphs and tables, on letter paper with wide margins."""
    section = (
        '<w:sectPr><w:pgSz w:w="12240" w:h="15840"/><w:pgMar w:top="1800" w:right="1800" w:bottom="1800" w:left="1800" w:header="720" '
        'w:footer="720" w:gutter="0"/></w:sectPr>'
    )
    kinds = "".join(
        f'<Override PartName="/word/{name}.xml" ContentType="{_TYPE}.{kind}+xml"/>'
        for name, kind in (
            ("document", "document.main"),
            ("styles", "styles"),
            ("numbering", "numbering"),
            ("settings", "settings"),
        )
    )
    targets = "".join(
        f'<Relationship Id="rId{n}" Type="{_RELATIONS}/{name}" Target="{name}.xml"/>'
        for n, name in enumerate(("styles", "numbering", "settings"), 1)
    )
    return zipped(
        {
            "[Content_Types].xml": f'<Types xmlns="{_PACKAGE}/content-types"><Default Extension="rels" ContentType="application/vnd.openxmlformats-package.relationships+xml"/>'
            f'<Default Extension="xml" ContentType="application/xml"/>{kinds}</Types>',
            "_rels/.rels": f'<Relationships xmlns="{_PACKAGE}/relationships"><Relationship Id="rId1" Type="{_RELATIONS}/officeDocument" Target="word/document.xml"/></Relationships>',
            "word/document.xml": f"<w:document {_SPACE}><w:body>{''.join(body)}{section}</w:body></w:document>",
            "word/_rels/document.xml.rels": f'<Relationships xmlns="{_PACKAGE}/relationships">{targets}</Relationships>',
            "word/styles.xml": _STYLES,
            "word/numbering.xml": _NUMBERING,
            "word/settings.xml": f"<w:settings {_SPACE}/>",
        }
    )
