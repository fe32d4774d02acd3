"""The kinds of checks that an expert chooses from in a spreadsheet, and how their cells become arguments of the check library.

A check has the cells File, Field, Expected and Tolerance; a kind says which of them it needs and what they mean. Every other
check of the library can be named too, with its arguments in the cell Options.
"""

import csv
import inspect
import io
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from sandlot.checks import LIBRARY

Arguments = dict[str, Any]
JUDGE = "judge"
"""The kind that a grader model decides."""
_NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?")


class CellProblem(ValueError):  # noqa: N818 - one cell cannot be read; it becomes a finding
    """A cell that cannot be read: which, why, and the fix."""

    def __init__(self, column: str, message: str, fix: str) -> None:
        super().__init__(message)
        self.column, self.message, self.fix = column, message, fix


@dataclass(frozen=True, slots=True)
class CheckKind:
    """One kind: the check behind it, and what its cells mean."""

    name: str
    check: str
    """The name in the library; `judge` for a question to a grader model."""
    meaning: str
    """One line for authors."""
    expected: Callable[[str], Arguments] | None = None
    """Reads the cell Expected; None if there is nothing to expect."""
    of_answer: bool = False
    """True if an empty Expected means the golden answer."""
    file: bool | None = None
    """True: the cell File is needed; None: it may be empty, and then the last message is checked; False: there is none."""
    field: Callable[[str], Arguments] | None = None
    """Reads the cell Field, which is then needed."""
    tolerance: Callable[[str, Arguments], Arguments] | None = None


def kind_named(text: str) -> CheckKind | None:
    """The kind of this name, or the check of the library; None if there is neither."""
    word = " ".join(text.lower().replace("_", " ").split())
    if word in KINDS:
        return KINDS[word]
    name = word.replace(" ", "_").removeprefix("sandlot:")
    if name not in LIBRARY:
        return None
    takes_path = "path" in inspect.signature(LIBRARY[name]).parameters
    return CheckKind(name, name, "a check of the library", file=None if takes_path else False)


# -- readers of cells ----------------------------------------------------------------------------------------------------------


def read_number(text: str, column: str = "Expected") -> float:
    """A plain number; `CellProblem` for anything else, such as a decimal comma."""
    bare = text.strip().replace("\u2212", "-")
    if _NUMBER.fullmatch(bare) and math.isfinite(value := float(bare)):
        return value
    raise CellProblem(column, f"{text[:60]!r} is not a plain number", "write it like 1234.5, without units, blanks or commas")


def _text(name: str) -> Callable[[str], Arguments]:
    return lambda text: {name: text}


def _number(name: str) -> Callable[[str], Arguments]:
    return lambda text: {name: _tidy(read_number(text))}


def _tidy(value: float) -> float | int:
    return int(value) if value.is_integer() and abs(value) < 1e15 else value


def _count(name: str) -> Callable[[str], Arguments]:
    def read(text: str) -> Arguments:
        value = read_number(text)
        if not value.is_integer() or value < 0:
            raise CellProblem("Expected", f"{text!r} is not a count", "write a whole number, such as 12")
        return {name: int(value)}

    return read


def read_value(text: str) -> Any:
    """A cell as JSON would have it: numbers, TRUE and FALSE, lists, objects, texts. Quotes make a text of a number."""
    bare = text.strip()
    if bare.upper() in {"TRUE", "FALSE"}:
        return bare.upper() == "TRUE"
    if _NUMBER.fullmatch(bare):
        return _tidy(float(bare))
    if bare == "null" or bare[:1] in {"[", "{", '"'}:
        try:
            return msgspec.json.decode(bare)
        except (msgspec.DecodeError, RecursionError) as error:
            raise CellProblem("Expected", f"it begins like JSON, but is not: {error}", "close every bracket and quote") from error
    return text


def _facts(text: str) -> Arguments:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    facts = [[each.strip() for each in line.split("|") if each.strip()] if "|" in line else line for line in lines]
    return {"facts": facts}


def _table(text: str) -> Arguments:
    try:
        rows = list(csv.DictReader(io.StringIO(text.strip()), strict=True))
    except csv.Error as error:
        raise CellProblem("Expected", f"it is not a table: {error}", "write a header line, then one line per row") from error
    if not rows or any(None in row or None in row.values() for row in rows):
        raise CellProblem(
            "Expected",
            "it is not a table with as many values in every line",
            "write a header line, then one line per row, with commas",
        )
    return {"rows": [{name: read_value(value) for name, value in row.items()} for row in rows]}


def _bounds(low: str, high: str, read: Callable[[str], Any]) -> Callable[[str], Arguments]:
    def parse(text: str) -> Arguments:
        first, mark, last = text.partition("..")
        if not mark or not (first.strip() or last.strip()):
            raise CellProblem("Expected", f"{text[:60]!r} is not a range", "write it like 10..20")
        return {name: read(value.strip()) for name, value in ((low, first), (high, last)) if value.strip()}

    return parse


def _names(name: str) -> Callable[[str], Arguments]:
    return lambda text: {name: [each.strip() for each in text.split(",") if each.strip()]}


def _key_columns(text: str) -> Arguments:
    return _names("key")(text) if text.strip() else {}


def _absolute(text: str, parsed: Arguments) -> Arguments:
    """A tolerance as a number, or as a percentage of the expected one."""
    bare = text.strip()
    if bare.endswith("%"):
        share = read_number(bare[:-1], "Tolerance")
        value = parsed.get("value")
        if not isinstance(value, int | float):
            raise CellProblem("Tolerance", f"{text!r} is a percentage of a value that is no number", "write a plain number")
        return {"tolerance": abs(value) * _positive(share, text) / 100}
    return {"tolerance": _positive(read_number(bare, "Tolerance"), text)}


def _of_quantity(text: str, _: Arguments) -> Arguments:
    bare = text.strip()
    if bare.endswith("%"):
        return {"relative": _positive(read_number(bare[:-1], "Tolerance"), text) / 100}
    return {"absolute": bare}


def _in_seconds(text: str, _: Arguments) -> Arguments:
    return {"tolerance_s": _positive(read_number(text, "Tolerance"), text)}


def _positive(value: float, text: str) -> float:
    if value < 0:
        raise CellProblem("Tolerance", f"{text!r} is below 0", "write 0 or more")
    return value


_ALL = (
    CheckKind("answer equals", "answer_equals", "The last message is this text.", _text("text"), of_answer=True, file=False),
    CheckKind("answer matches", "answer_matches", "The last message matches this regular expression.", _text("pattern"), file=False),
    CheckKind(
        "number", "number_equals", "The answer, or the file, is this number. Tolerance: 0.5 or 2%.", _number("value"),
        of_answer=True, tolerance=_absolute,
    ),
    CheckKind(
        "quantity", "quantity_equals", "The answer is this number with a unit: 12.5 kg. Other units count. Tolerance: 2% or 0.1 kg.",
        _text("value"), of_answer=True, tolerance=_of_quantity,
    ),
    CheckKind(
        "quantity between", "quantity_between", "The answer lies in this range: 10 kg..12 kg.", _bounds("low", "high", str)
    ),
    CheckKind("date", "date_equals", "The answer is this date: 2026-03-04.", _text("value"), of_answer=True),
    CheckKind(
        "duration", "duration_equals", "The answer is this duration: 1 h 30 min. Tolerance: seconds.", _text("value"),
        of_answer=True, tolerance=_in_seconds,
    ),
    CheckKind("formula", "math_equals", "The answer is this formula, number, set or equation.", _text("value"), of_answer=True, tolerance=_absolute),
    CheckKind("choice", "choice_equals", "The answer is this option: B.", _text("choice"), of_answer=True),
    CheckKind("states facts", "text_states", "The text states these facts: one per line, other wordings after |.", _facts),
    CheckKind("similar text", "text_like", "The text has the same words as this one.", _text("text"), of_answer=True),
    CheckKind("word count", "word_count", "The text has so many words: 50..200.", _bounds("at_least", "at_most", lambda text: int(read_number(text)))),
    CheckKind("file exists", "file_exists", "The file is there.", file=True),
    CheckKind("file absent", "file_absent", "The file is not there.", file=True),
    CheckKind("file equals", "file_equals", "The file has this text.", _text("text"), file=True),
    CheckKind("file contains", "file_contains", "The file contains this text.", _text("text"), file=True),
    CheckKind("file unchanged", "unchanged", "The given file was not changed.", file=True),
    CheckKind(
        "json field", "json_value", "A value of a JSON file. Field: where it is, such as total or items.0.price.",
        lambda text: {"value": read_value(text)}, file=True, field=_text("at"), tolerance=_absolute,
    ),
    CheckKind("json equals", "json_equals", "The JSON file has this value.", lambda text: {"value": read_value(text)}, file=True),
    CheckKind(
        "table equals", "table_equals", "The CSV file has these rows (header line first). Field: the columns that name a row.",
        _table, file=True, field=_key_columns, tolerance=lambda text, _: {"tolerance": _positive(read_number(text, "Tolerance"), text)},
    ),
    CheckKind(
        "table share", "table_share", "As table equals, with points for the share of rows that is right.",
        _table, file=True, field=_key_columns, tolerance=lambda text, _: {"tolerance": _positive(read_number(text, "Tolerance"), text)},
    ),
    CheckKind("table total", "table_total", "A column of the CSV file adds up to this. Field: the column.", _number("value"), file=True, field=_text("column"), tolerance=_absolute),
    CheckKind("table rows", "csv_rows", "The CSV file has so many rows, without the header.", _count("rows"), file=True),
    CheckKind("table sorted", "table_sorted", "The CSV file is sorted. Field: the column.", file=True, field=_text("by")),
    CheckKind("table unique", "table_unique", "No two rows of the CSV file agree in these columns. Field: the columns.", file=True, field=_names("columns")),
    CheckKind(
        "cell", "cell_value", "A cell of an .xlsx file. Field: Sheet!B9. Needs an image with LibreOffice.",
        lambda text: {"value": read_value(text)}, file=True, field=_text("cell"), tolerance=_absolute,
    ),
    CheckKind(JUDGE, JUDGE, "A model decides if this statement about the answer, or the file, is true.", _text("prompt")),
)  # fmt: skip
KINDS: Mapping[str, CheckKind] = {kind.name: kind for kind in _ALL}
"""The kinds by name, as a spreadsheet offers them."""
OPTIONAL_FIELD = frozenset({"table equals", "table share"})
"""Kinds whose cell Field may be empty."""
