"""Checks of text documents (`.docx`, and `.odt` through LibreOffice), named in a rubric as `sandlot:NAME`.

Structure counts, not looks: a heading is a paragraph with a heading style (bold text is none), a list has real list numbering, a
table of contents is a field. Text that a reader cannot see is not there.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from sandlot.checks.office.document import Document, Paragraph, read_document
from sandlot.checks.office.recalculation import office_bytes
from sandlot.core.errors import NotInEvidence
from sandlot.core.ports.grading import Evidence

Said = tuple[float, str]
_MM = 1.0
"""Tolerance of page sizes and margins, in millimetres."""
_FORMAT = ("font", "size", "bold", "italic", "color", "align", "line_spacing", "space_after")


async def doc_headings(evidence: Evidence, path: str, headings: Sequence[Sequence[Any]], *, exact: bool = True) -> Said:
    """The headings, each `[level, text]`, in this order. The share that is there; with `exact`, other headings count as wrong."""
    document = await _document(evidence, path)
    found = [(each.level, _words(each.text)) for each in document.paragraphs if each.level is not None and each.text]
    wanted = [(int(level), _words(text)) for level, text in headings]
    right = _common_order(found, wanted)
    total = max(len(found), len(wanted)) if exact else len(wanted)
    return right / max(total, 1), f"headings: {_some([f'{level} {text}' for level, text in found])}"


async def doc_has_text(evidence: Evidence, path: str, texts: Sequence[str]) -> Said:
    """The share of these texts that a reader finds in the document, tables included; case and blanks do not count."""
    text = _words((await _document(evidence, path)).text)
    missing = [each for each in texts if _words(each) not in text]
    return 1 - len(missing) / max(len(texts), 1), f"missing: {_some(missing)}" if missing else "all texts are there"


async def doc_lacks_text(evidence: Evidence, path: str, texts: Sequence[str]) -> Said:
    """None of these texts is in the document: placeholders, old names. The document must have some text."""
    document = await _document(evidence, path)
    around = "\n".join(each.text for each in (*document.headers, *document.footers))
    text = _words(f"{document.text}\n{around}")
    there = [each for each in texts if _words(each) in text]
    return float(bool(text) and not there), f"still there: {_some(there)}" if there else "none is there"


async def doc_paragraph_style(evidence: Evidence, path: str, text: str, style: str) -> Said:
    """The paragraph that begins with this text has the style of this name."""
    paragraph = _beginning(await _document(evidence, path), path, text)
    return float(_style_name(paragraph.style) == _style_name(style)), f"style `{paragraph.style}`"


async def doc_format(evidence: Evidence, path: str, like: Mapping[str, Any], *, text: str = "", style: str = "") -> Said:
    """The share of paragraphs (those beginning with `text`, or of the style `style`) with this format, styles included.

    Keys of `like`: `font`, `size` (points), `bold`, `italic`, `color` (`RRGGBB`), `align`, `line_spacing` (lines), `space_after`
    (points).
    """
    unknown = [key for key in like if key not in _FORMAT]
    if unknown:
        raise ValueError(f"no format `{unknown[0]}`; there are: {', '.join(_FORMAT)}")
    document = await _document(evidence, path)
    chosen = [_beginning(document, path, text)] if text else [each for each in document.paragraphs if each.text]
    chosen = [each for each in chosen if not style or _style_name(each.style) == _style_name(style)]
    if not chosen:
        raise NotInEvidence(f"`{path}` has no paragraph of the style `{style}`")
    wrong = [each for each in chosen if not all(_close(getattr(each.format, key), value) for key, value in like.items())]
    shown = {key: getattr(wrong[0].format, key) for key in like} if wrong else dict(like)
    return 1 - len(wrong) / len(chosen), f"{len(chosen) - len(wrong)} of {len(chosen)} paragraphs; for example {shown}"


async def doc_contents(evidence: Evidence, path: str, *, entries: Sequence[str] = (), levels: str = "") -> Said:
    """There is a table of contents: a field, not typed text. `entries` must be shown in it, so it was updated."""
    document = await _document(evidence, path)
    fields = [each for each in document.paragraphs if re.search(r"\bTOC\b", each.fields)]
    if not fields:
        return 0.0, "there is no table of contents field"
    if levels and f'"{levels}"' not in " ".join(each.fields for each in fields):
        return 0.5, f"the field is {fields[0].fields!r}"
    place = document.paragraphs.index(fields[0])
    listed = _words("\n".join(each.text for each in document.paragraphs[place:] if each.level is None))
    missing = [each for each in entries if _words(each) not in listed]
    return 1 - 0.5 * len(missing) / max(len(entries), 1), f"missing: {_some(missing)}" if missing else "all entries are there"


async def doc_list(evidence: Evidence, path: str, items: Sequence[str], *, kind: str = "") -> Said:
    """The share of these items that are paragraphs of a real list (`bullet` or `numbered`), in this order."""
    document = await _document(evidence, path)
    found = [_words(each.text) for each in document.paragraphs if each.list_kind and (not kind or each.list_kind == kind)]
    right = _common_order(found, [_words(item) for item in items])
    return right / max(len(items), 1), f"list items: {_some(found)}"


async def doc_table(
    evidence: Evidence, path: str, rows: Sequence[Sequence[str]], *, header_repeats: bool | None = None, style: str = ""
) -> Said:
    """A table with these rows of cells: the share of rows that are there, in order. Other rows count as wrong."""
    document = await _document(evidence, path)
    wanted = [[_words(str(cell)) for cell in row] for row in rows]
    best: Said = (0.0, f"{len(document.tables)} tables")
    for table in document.tables:
        found = [[_words(cell) for cell in row] for row in table.rows]
        share = _common_order(found, wanted) / max(len(found), len(wanted), 1)
        facts = [] if header_repeats is None else [table.header_repeats == header_repeats]
        facts += [_style_name(table.style) == _style_name(style)] if style else []
        whole = share * (1 + sum(facts)) / (1 + len(facts))
        best = max(best, (whole, f"rows {found[:3]}, header repeats {table.header_repeats}, style `{table.style}`"))
    return best


async def doc_page(
    evidence: Evidence, path: str, *, size: Sequence[float] = (), margins: Mapping[str, float] | None = None
) -> Said:
    """Every section has this page size (width and height in millimetres) and these margins (`top`, `bottom`, `left`, `right`)."""
    document = await _document(evidence, path)
    facts = [
        abs(found - wanted) <= _MM
        for page in document.pages
        for found, wanted in [
            *zip((page.width, page.height), size, strict=False),
            *((page.margins[side], wanted) for side, wanted in (margins or {}).items()),
        ]
    ]
    shown = [f"{page.width:.0f} x {page.height:.0f} mm, margins {_rounded(page.margins)}" for page in document.pages]
    return sum(facts) / max(len(facts), 1), _some(shown)


async def doc_header_footer(evidence: Evidence, path: str, where: str, *, text: str = "", field: str = "") -> Said:
    """The `header` or `footer` has this text, and this field (`PAGE`, `NUMPAGES`): a typed-in number is no field."""
    document = await _document(evidence, path)
    paragraphs = {"header": document.headers, "footer": document.footers}[where]
    facts = [_words(text) in _words(" ".join(each.text for each in paragraphs))] if text else []
    facts += [any(re.search(rf"\b{re.escape(field)}\b", each.fields) for each in paragraphs)] if field else []
    shown = " | ".join(f"{each.text} {each.fields}".strip() for each in paragraphs)
    return sum(facts) / max(len(facts), 1), f"{where}: {shown[:200] or 'empty'}"


async def doc_changes(
    evidence: Evidence, path: str, *, insertions: Sequence[str] | None = None, deletions: Sequence[str] | None = None
) -> Said:
    """The tracked changes that are still open are exactly these texts; `[]` means that none is left."""
    document = await _document(evidence, path)
    facts: list[bool] = []
    for wanted, found in ((insertions, document.insertions), (deletions, document.deletions)):
        if wanted is not None:
            facts.append(sorted(_words(each) for each in found if each.strip()) == sorted(map(_words, wanted)))
    return sum(facts) / max(len(facts), 1), f"inserted: {_some(document.insertions)}; deleted: {_some(document.deletions)}"


async def doc_paragraphs(evidence: Evidence, path: str, texts: Sequence[str]) -> Said:
    """The document's paragraphs are exactly these, in order: the share that is right. Empty paragraphs do not count."""
    document = await _document(evidence, path)
    found = [_words(each.text) for each in document.paragraphs if each.text]
    right = _common_order(found, [_words(each) for each in texts])
    return right / max(len(found), len(texts), 1), f"{right} of {len(texts)} paragraphs are right, {len(found)} are there"


async def doc_comments(evidence: Evidence, path: str, texts: Sequence[str]) -> Said:
    """The comments at the document's margin are exactly these; `[]` means that none is left."""
    document = await _document(evidence, path)
    found = sorted(map(_words, document.comments))
    return float(found == sorted(map(_words, texts))), f"comments: {_some(found)}"


async def _document(evidence: Evidence, path: str) -> Document:
    data = await office_bytes(evidence, path)
    return read_document(data, path)


def _beginning(document: Document, path: str, text: str) -> Paragraph:
    found = next((each for each in document.paragraphs if _words(each.text).startswith(_words(text))), None)
    if found is None:
        raise NotInEvidence(f"`{path}` has no paragraph that begins with {text[:60]!r}")
    return found


def _words(text: str) -> str:
    """A text as it is compared: without case, with single blanks and plain quotation marks and dashes."""
    plain = text.translate({0x2018: "'", 0x2019: "'", 0x201C: '"', 0x201D: '"', 0x2013: "-", 0x2014: "-", 0xA0: " "})
    return " ".join(plain.casefold().split())


def _style_name(name: str) -> str:
    return re.sub(r"[\s_-]", "", name).casefold()


def _close(found: Any, wanted: Any) -> bool:
    if isinstance(wanted, bool) or wanted is None:
        return bool(found) == bool(wanted)
    if isinstance(wanted, int | float):
        return isinstance(found, int | float) and abs(found - wanted) <= 0.05
    return isinstance(found, str) and found.casefold() == str(wanted).casefold()


def _common_order(found: Sequence[Any], wanted: Sequence[Any]) -> int:
    """Length of the longest common subsequence: how many of the wanted are there in the right order."""
    lengths = [0] * (len(wanted) + 1)
    for one in found[:2_000]:
        previous = 0
        for place, other in enumerate(wanted):
            kept = lengths[place + 1]
            lengths[place + 1] = previous + 1 if one == other else max(kept, lengths[place])
            previous = kept
    return lengths[-1]


def _some(items: Sequence[Any]) -> str:
    return "; ".join(str(each)[:60] for each in items[:8]) + (f" and {len(items) - 8} more" if len(items) > 8 else "") or "none"


def _rounded(margins: Mapping[str, float]) -> dict[str, float]:
    return {side: round(value, 1) for side, value in margins.items()}
