"""Checks of slide decks (`.pptx`, and `.odp` through LibreOffice), named in a rubric as `sandlot:NAME`.

Slides count from 1. A title is the text of a title placeholder, not of a text box that looks like one. Hidden slides are not
there.
"""

from collections.abc import Sequence

from sandlot.checks.office.presentation import Presentation, Slide, SlideShape, read_presentation, text_height
from sandlot.checks.office.recalculation import office_bytes
from sandlot.core.errors import NotInEvidence
from sandlot.core.ports.grading import Evidence

Said = tuple[float, str]
_EDGE = 1.0
"""Points that a shape may reach over the edge of a slide."""
_OVERFLOW = 1.15
"""Estimated height of a text over that of its shape, from which on it counts as overflowing."""


async def slide_titles(evidence: Evidence, path: str, titles: Sequence[str]) -> Said:
    """The titles of all slides, in order. The share of slides that are right; other slides count as wrong."""
    found = [_words(slide.title) for slide in await _slides(evidence, path)]
    right = sum(one == _words(other) for one, other in zip(found, titles, strict=False))
    return right / max(len(found), len(titles), 1), f"titles: {found}"[:600]


async def slide_layouts(evidence: Evidence, path: str, layouts: Sequence[str]) -> Said:
    """The names of the slides' layouts, in order; an empty string leaves a slide open."""
    found = [slide.layout for slide in await _slides(evidence, path)]
    right = sum(not other or _words(one) == _words(other) for one, other in zip(found, layouts, strict=False))
    return right / max(len(found), len(layouts), 1), f"layouts: {found}"[:600]


async def slide_has_text(evidence: Evidence, path: str, slide: int, texts: Sequence[str]) -> Said:
    """The share of these texts that the slide shows outside of its title."""
    found = await _slide(evidence, path, slide)
    text = _words("\n".join(found.lines))
    missing = [each for each in texts if _words(each) not in text]
    return 1 - len(missing) / max(len(texts), 1), f"missing: {missing}" if missing else "all texts are there"


async def slides_lack_text(evidence: Evidence, path: str, texts: Sequence[str]) -> Said:
    """None of these texts is on any slide, in titles or elsewhere. There must be slides."""
    slides = await _slides(evidence, path)
    text = _words("\n".join(line for slide in slides for shape in slide.shapes for line in shape.lines))
    there = [each for each in texts if _words(each) in text]
    return float(bool(text) and not there), f"still there: {there}" if there else "none is there"


async def slide_bullets(
    evidence: Evidence, path: str, slide: int, *, at_least: int = 0, at_most: int = 100, words: int = 100
) -> Said:
    """The slide has this many lines of text outside of its title, each of at most `words` words."""
    found = (await _slide(evidence, path, slide)).lines
    long = [line for line in found if len(line.split()) > words]
    return float(at_least <= len(found) <= at_most and not long), f"{len(found)} lines" + (
        f", too long: {long[0]!r}" if long else ""
    )


async def slide_notes(evidence: Evidence, path: str, slide: int, texts: Sequence[str]) -> Said:
    """The share of these texts in the slide's speaker notes."""
    notes = _words((await _slide(evidence, path, slide)).notes)
    missing = [each for each in texts if _words(each) not in notes]
    return 1 - len(missing) / max(len(texts), 1), f"notes: {notes[:200]!r}"


async def slide_table(evidence: Evidence, path: str, slide: int, rows: Sequence[Sequence[str]]) -> Said:
    """The slide has a table with these rows of cells: the share of rows that are right. Other rows count as wrong."""
    found = await _slide(evidence, path, slide)
    wanted = [[_words(str(cell)) for cell in row] for row in rows]
    best: Said = (0.0, "there is no table")
    for shape in found.shapes:
        there = [[_words(cell) for cell in row] for row in shape.rows]
        right = sum(one == other for one, other in zip(there, wanted, strict=False))
        best = max(best, (right / max(len(there), len(wanted), 1), f"rows {there[:4]}")) if there else best
    return best


async def slide_objects(evidence: Evidence, path: str, slide: int, kind: str, *, at_least: int = 1, at_most: int = 100) -> Said:
    """The slide has this many shapes of a kind: `picture`, `table`, `chart` or `text`."""
    found = [shape for shape in (await _slide(evidence, path, slide)).shapes if shape.kind == kind]
    return float(at_least <= len(found) <= at_most), f"{len(found)} of kind {kind}"


async def slides_within_bounds(evidence: Evidence, path: str) -> Said:
    """The share of slides on which every shape lies inside the slide, and (by an estimate) every text inside its shape."""
    deck = await _deck(evidence, path)
    slides = [slide for slide in deck.slides if not slide.hidden]
    wrong = {place: _outside(deck, slide) for place, slide in enumerate(slides, start=1)}
    bad = {place: names for place, names in wrong.items() if names}
    return 1 - len(bad) / max(len(slides), 1) if slides else 0.0, f"outside: {bad}"[:600] if bad else "all shapes fit"


async def slides_do_not_overlap(evidence: Evidence, path: str) -> Said:
    """The share of slides on which no two shapes with content cover each other."""
    slides = await _slides(evidence, path)
    bad = {place: pairs for place, slide in enumerate(slides, start=1) if (pairs := _overlaps(slide))}
    return 1 - len(bad) / max(len(slides), 1) if slides else 0.0, f"overlap: {bad}"[:600] if bad else "none overlap"


async def slides_filled(evidence: Evidence, path: str) -> Said:
    """The share of slides without an empty title or body placeholder."""
    slides = await _slides(evidence, path)
    body = {"title", "ctrTitle", "body", "subTitle", "obj"}
    bad = [
        place
        for place, slide in enumerate(slides, start=1)
        if any(shape.kind == "text" and shape.placeholder in body and not shape.lines for shape in slide.shapes)
        or not slide.title
    ]
    return 1 - len(bad) / max(
        len(slides), 1
    ) if slides else 0.0, f"slides with empty placeholders: {bad}" if bad else "all are filled"


async def slides_readable(evidence: Evidence, path: str, *, size: float = 12.0) -> Said:
    """The share of slides on which no text is set smaller than `size` points."""
    slides = await _slides(evidence, path)
    bad = {
        place: min(sizes)
        for place, slide in enumerate(slides, start=1)
        if (sizes := [shape.size for shape in slide.shapes if shape.lines and 0 < shape.size < size])
    }
    return 1 - len(bad) / max(
        len(slides), 1
    ) if slides else 0.0, f"smallest sizes: {bad}" if bad else f"no text below {size:g} points"


async def _deck(evidence: Evidence, path: str) -> Presentation:
    data = await office_bytes(evidence, path)
    return read_presentation(data, path)


async def _slides(evidence: Evidence, path: str) -> list[Slide]:
    return [slide for slide in (await _deck(evidence, path)).slides if not slide.hidden]


async def _slide(evidence: Evidence, path: str, number: int) -> Slide:
    slides = await _slides(evidence, path)
    if not 1 <= number <= len(slides):
        raise NotInEvidence(f"`{path}` has {len(slides)} slides, no slide {number}")
    return slides[number - 1]


def _words(text: str) -> str:
    plain = text.translate({0x2018: "'", 0x2019: "'", 0x201C: '"', 0x201D: '"', 0x2013: "-", 0x2014: "-", 0xA0: " "})
    return " ".join(plain.casefold().split())


def _outside(deck: Presentation, slide: Slide) -> list[str]:
    names: list[str] = []
    for shape in slide.shapes:
        if shape.place is None:
            continue
        left, top, width, height = shape.place
        over = left < -_EDGE or top < -_EDGE or left + width > deck.width + _EDGE or top + height > deck.height + _EDGE
        full = shape.kind == "text" and shape.lines and not shape.fitted and text_height(shape) > height * _OVERFLOW
        if over or full:
            names.append(shape.name)
    return names


def _overlaps(slide: Slide) -> list[str]:
    shapes = [shape for shape in slide.shapes if shape.place is not None and (shape.lines or shape.kind != "text")]
    return [f"{one.name} and {two.name}" for place, one in enumerate(shapes) for two in shapes[place + 1 :] if _overlap(one, two)]


def _overlap(one: SlideShape, two: SlideShape) -> bool:
    if one.place is None or two.place is None:
        return False
    (x1, y1, w1, h1), (x2, y2, w2, h2) = one.place, two.place
    width, height = min(x1 + w1, x2 + w2) - max(x1, x2), min(y1 + h1, y2 + h2) - max(y1, y2)
    return width > 2 * _EDGE and height > 2 * _EDGE
