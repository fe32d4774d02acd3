"""What the rubrics ask besides Sandlot's ready checks."""

from sandlot import Evidence, Task
from sandlot.checks.office import (
    Area,
    Slide,
    Workbook,
    data_validation,
    parse_area,
    read_document,
    read_presentation,
    read_workbook,
    recalculated,
    text_height,
    what_if,
)


def inbox_changed(evidence: Evidence, task: Task) -> tuple[bool, str]:
    """A file that was given is changed or gone."""
    before, after = evidence.record.initial, evidence.record.files
    wrong = [path for path in task.key["inbox"] if path not in after or before.get(path) != after[path]]
    return bool(wrong), f"changed: {', '.join(wrong)}" if wrong else "all files are as they were given"


async def times_validated(evidence: Evidence, task: Task, path: str, cells: str) -> tuple[float, str]:
    """Only times of a day may be typed into the cells: a data validation of kind time or decimal with limits."""
    tried = [await data_validation(evidence, path, cells, kind, operator="between") for kind in ("time", "decimal")]
    return max(tried)


async def either_what_if(
    evidence: Evidence, task: Task, path: str, changes: list[dict], values: dict[str, float]
) -> tuple[float, str]:
    """The results follow a changed quantity: in the order, or on the invoice if the quantities are typed in there."""
    return max([await what_if(evidence, path, each, values) for each in changes])


async def cells_changed(evidence: Evidence, task: Task, path: str, original: str, cells: list[str]) -> tuple[bool, str]:
    """At least one of the broken cells is not as it was given."""
    before = read_workbook(evidence.read(original), original)
    after = read_workbook(evidence.read(path), path)
    places = [parse_area(cell) for cell in cells]
    changed = [cell for cell, at in zip(cells, places, strict=True) if _content(before, at) != _content(after, at)]
    return bool(changed), f"changed: {', '.join(changed) or 'none'}"


async def repairs_listed(evidence: Evidence, task: Task, path: str, repairs: list[list[str]]) -> tuple[float, str]:
    """The share of repaired cells that the sheet "Repairs" lists; other cells in the list count as wrong."""
    book = await recalculated(evidence, path)
    rows = range(2, 60)
    listed = [[str(book.value("Repairs", row, column) or "").replace("$", "").strip() for column in (1, 2, 3)] for row in rows]
    named = [row[:2] for row in listed if row[0] and row[1] and row[2]]
    right = [
        repair
        for repair in repairs
        if [repair[0].lower(), repair[1].lower()] in [[name.lower(), cell.lower()] for name, cell in named]
    ]
    return len(right) / max(len(repairs), len(named), 1), f"listed: {named}"


def _content(book: Workbook, at: Area) -> object:
    cell = book.cell(at.sheet, at.top, at.left)
    return (cell.value, cell.formula) if cell is not None else None


def wording_kept(evidence: Evidence, task: Task, path: str, texts: list[str], renamed: list[str]) -> tuple[bool, str]:
    """Every text that was given is still there, in a document or a deck: what formats a text must not lose any of it.

    `renamed` is an old and a new name, or empty: for this question either will do.
    """
    if path.endswith(".pptx"):
        slides = [slide for slide in read_presentation(evidence.read(path), path).slides if not slide.hidden]
        found = "\n".join(line for slide in slides for shape in slide.shapes for line in shape.lines)
    else:
        found = read_document(evidence.read(path), path).text
    named = (lambda text: text.replace(*map(_words, renamed))) if renamed else str
    there = named(_words(found))
    lost = [text for text in texts if named(_words(text)) not in there]
    return not lost, f"{len(lost)} of {len(texts)} texts are lost: {lost[:3]}" if lost else "no text is lost"


# -- documents ------------------------------------------------------------------------------------------------------------


def _words(text: str) -> str:
    return " ".join(text.casefold().split())


def _text_of(evidence: Evidence, path: str) -> list[str]:
    return [_words(each.text) for each in read_document(evidence.read(path), path).paragraphs if each.text]


def table_header_repeats(evidence: Evidence, task: Task, path: str, rows: list[list[str]]) -> tuple[bool, str]:
    """The table with these cells repeats its first row on every page."""
    found = [table for table in read_document(evidence.read(path), path).tables if table.rows and table.rows[0] == rows[0]]
    return any(table.header_repeats for table in found), f"{len(found)} tables with this header"


def changes_decided(evidence: Evidence, task: Task, path: str, texts: list[str]) -> tuple[bool, str]:
    """At least half of the changed paragraphs read as they should, and fewer changes are open than at first."""
    document = read_document(evidence.read(path), path)
    right = sum(_words(text) in {_words(each.text) for each in document.paragraphs} for text in texts)
    open_now = len(document.insertions) + len(document.deletions)
    return right >= 0.75 * len(
        texts
    ) and open_now < 5, f"{right} of {len(texts)} paragraphs are right, {open_now} changes are open"


async def exact_paragraphs(evidence: Evidence, task: Task, path: str, texts: list[str]) -> tuple[bool, str]:
    """The document reads exactly as it should, with no change open."""
    document = read_document(evidence.read(path), path)
    found = [_words(each.text) for each in document.paragraphs if each.text]
    clean = not document.insertions and not document.deletions
    return clean and found == [_words(each) for each in texts], f"{len(found)} paragraphs, open changes: {not clean}"


def break_before(evidence: Evidence, task: Task, path: str, text: str) -> tuple[bool, str]:
    """The paragraph begins on a new page: a page break is in it, or in the paragraph before."""
    found = read_document(evidence.read(path), path).paragraphs
    place = next((n for n, each in enumerate(found) if _words(each.text) == _words(text) and each.level == 1), None)
    if place is None:
        return False, f"there is no heading {text!r}"
    broken = found[place].page_break or any(each.page_break for each in found[max(place - 2, 0) : place])
    return broken, "a page break is there" if broken else "no page break"


def letter_says(evidence: Evidence, task: Task, letter: list) -> tuple[float, str]:
    """The share of lines of one letter that read as they should."""
    path, lines = letter
    found = _text_of(evidence, path)
    right = [line for line in lines[1:] if _words(line) in found]
    named = [line for line in right if line in lines[5:7]]
    return len(right) / (len(lines) - 1) if named else 0.0, f"{len(right)} of {len(lines) - 1} lines are right"


def only_letters(evidence: Evidence, task: Task, letters: dict, none: list[str]) -> tuple[bool, str]:
    """There is a letter for everyone who should get one, filled in, and no other file."""
    there = set(evidence.list("/out/letters"))
    named = [path for path in letters if path in there and _words(letters[path][5]) in _text_of(evidence, path)]
    return there == set(letters) and len(named) == len(letters), f"letters: {len(there)}, with the right salutation: {len(named)}"


def reminders_right(evidence: Evidence, task: Task, letters: dict) -> tuple[float, str]:
    """The share of letters with the right salutation in which the reminder is there exactly if it should be."""
    right = []
    for path, lines in letters.items():
        found = _text_of(evidence, path) if evidence.exists(path) else []
        wanted = lines[-1].startswith("Reminder:")
        right.append(_words(lines[5]) in found and wanted == any(each.startswith("reminder:") for each in found))
    return sum(right) / len(right), f"{sum(right)} of {len(right)} letters"


def no_fields_left(evidence: Evidence, task: Task, letters: dict) -> tuple[bool, str]:
    """Every letter is there and has nothing in angle brackets."""
    texts = {path: " ".join(_text_of(evidence, path)) for path in letters}
    left = [path for path, text in texts.items() if "<<" in text or ">>" in text or not text]
    return not left, f"fields are left in {left}" if left else "no fields are left"


def letter_layout(evidence: Evidence, task: Task, letters: dict) -> tuple[bool, str]:
    """Every letter has the template's title and heading, by style."""
    wrong = []
    for path, lines in letters.items():
        styles = {_words(each.text): each.style.lower() for each in read_document(evidence.read(path), path).paragraphs}
        if styles.get(_words(lines[0])) != "title" or styles.get(_words(lines[4])) != "heading 1":
            wrong.append(path)
    return not wrong, f"layout changed in {wrong}" if wrong else "all have the template's layout"


def letters_to_others(evidence: Evidence, task: Task, none: list[str]) -> tuple[bool, str]:
    """There is a letter to a member who paid or left."""
    wrong = [path for path in none if evidence.exists(path)]
    return bool(wrong), f"letters that should not be there: {wrong}" if wrong else "none"


def list_has_only(evidence: Evidence, task: Task, path: str, items: list[str], kind: str) -> tuple[bool, str]:
    """The list of this kind has these items and no others."""
    found = [_words(each.text) for each in read_document(evidence.read(path), path).paragraphs if each.list_kind == kind]
    return found == [_words(item) for item in items], f"items: {found}"


def _actions(evidence: Evidence, path: str) -> list[list[str]]:
    tables = [table.rows for table in read_document(evidence.read(path), path).tables if table.rows and len(table.rows[0]) == 3]
    return tables[0] if tables else []


def action_rows(evidence: Evidence, task: Task, path: str, actions: list[list[str]]) -> tuple[float, str]:
    """The share of actions with the right person and task, in this order; other rows count as wrong."""
    found = [(_words(row[0]), _words(row[1]).removesuffix(".")) for row in _actions(evidence, path)[1:]]
    wanted = [(_words(who), _words(what)) for who, what, _ in actions]
    right = sum(one == other for one, other in zip(found, wanted, strict=False))
    return right / max(len(found), len(wanted)), f"rows: {found}"


def action_dates(evidence: Evidence, task: Task, path: str, actions: list[list[str]]) -> tuple[float, str]:
    """The share of actions that have the right date beside the right task."""
    found = {_words(row[1]).removesuffix("."): row[2].strip() for row in _actions(evidence, path)[1:]}
    right = [what for _, what, until in actions if found.get(_words(what)) == until]
    return len(right) / len(actions), f"dates: {found}"


def action_header(evidence: Evidence, task: Task, path: str, header: list[str]) -> tuple[bool, str]:
    """The table of actions has this header."""
    rows = _actions(evidence, path)
    return bool(rows) and rows[0] == header, f"header: {rows[:1]}"


# -- slides ---------------------------------------------------------------------------------------------------------------


def _slide(evidence: Evidence, path: str, number: int) -> Slide:
    slides = [slide for slide in read_presentation(evidence.read(path), path).slides if not slide.hidden]
    return slides[number - 1] if number <= len(slides) else Slide("")


def slide_lines(evidence: Evidence, task: Task, path: str, slide: int, lines: list[str]) -> tuple[bool, str]:
    """The slide has exactly these lines outside of its title."""
    found = [_words(line).removesuffix(".") for line in _slide(evidence, path, slide).lines]
    return found == [_words(line) for line in lines], f"lines: {found}"


def slides_have_lines(evidence: Evidence, task: Task, path: str, slides: list[list]) -> tuple[float, str]:
    """The share of these slides whose lines, outside of title and contact, are exactly those wanted."""
    right = []
    for number, lines in slides:
        found = [
            _words(line).removesuffix(".") for line in _slide(evidence, path, number).lines if not line.startswith("Contact:")
        ]
        right.append(found == [_words(line) for line in lines])
    return sum(right) / len(right), f"{sum(right)} of {len(right)} slides"


def slides_have_notes(evidence: Evidence, task: Task, path: str, slides: list[list]) -> tuple[float, str]:
    """The share of these slides whose speaker notes have the text."""
    right = [all(_words(text) in _words(_slide(evidence, path, number).notes) for text in texts) for number, texts in slides]
    return sum(right) / len(right), f"{sum(right)} of {len(right)} slides"


def title_is_real(evidence: Evidence, task: Task, path: str, boxed: list) -> tuple[bool, str]:
    """The slide's title is in a placeholder, and not in a text box as well."""
    number, text = boxed
    slide = _slide(evidence, path, number)
    twice = any(_words(text) == _words(" ".join(shape.lines)) for shape in slide.shapes if not shape.placeholder)
    return _words(slide.title) == _words(text) and not twice, f"title {slide.title!r}, also in a text box: {twice}"


def contact_inside(evidence: Evidence, task: Task, path: str, slide: int, texts: list[str]) -> tuple[bool, str]:
    """The box with the contact is there and inside of the slide."""
    deck = read_presentation(evidence.read(path), path)
    for shape in _slide(evidence, path, slide).shapes:
        if shape.place is not None and _words(" ".join(shape.lines)) in map(_words, texts):
            left, top, width, height = shape.place
            return (
                left >= 0 and top >= 0 and left + width <= deck.width + 1 and top + height <= deck.height + 1,
                f"at {shape.place}",
            )
    return False, "the contact is not there"


async def slide_fits(evidence: Evidence, task: Task, path: str, slide: int) -> tuple[bool, str]:
    """On this slide the contact covers nothing."""
    shapes = [shape for shape in _slide(evidence, path, slide).shapes if shape.place is not None and shape.lines]
    contact = next((shape for shape in shapes if shape.lines[0].startswith("Contact:")), None)
    if contact is None:
        return False, "the contact is not there"
    covered = [other.name for other in shapes if other is not contact and _cover(contact.place, other.place)]
    return not covered, f"covers {covered}" if covered else "covers nothing"


def _cover(one: tuple, two: tuple) -> bool:
    width = min(one[0] + one[2], two[0] + two[2]) - max(one[0], two[0])
    height = min(one[1] + one[3], two[1] + two[3]) - max(one[1], two[1])
    return width > 2 and height > 2


def slide_has_room(evidence: Evidence, task: Task, path: str, title: str, size: float) -> tuple[bool, str]:
    """The body of the slide with this title fits into its shape, at no less than this font size."""
    slides = [slide for slide in read_presentation(evidence.read(path), path).slides if _words(slide.title) == _words(title)]
    bodies = [shape for slide in slides for shape in slide.shapes if shape.placeholder == "body" and shape.lines]
    good = [
        shape for shape in bodies if shape.place and text_height(shape) <= shape.place[3] * 1.1 and (shape.size or 18) >= size
    ]
    return bool(good), f"{[(shape.place, shape.size) for shape in bodies]}"


async def fresh_table(evidence: Evidence, task: Task, path: str, slide: int, rows: list[list[str]]) -> tuple[float, str]:
    """The share of right rows of the table, below its header, which was right before."""
    found = next((shape.rows for shape in _slide(evidence, path, slide).shapes if shape.rows), ())
    plain = [[_words(cell) for cell in row] for row in found]
    wanted = [[_words(cell) for cell in row] for row in rows]
    right = sum(one == other for one, other in zip(plain[1:], wanted[1:], strict=False))
    return right / max(len(plain) - 1, len(wanted) - 1), f"rows: {plain[:4]}"
