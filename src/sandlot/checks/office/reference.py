"""Cell references and formulas as text: `B2:D9`, `'My sheet'!$A$1`, and which cells a formula reads.

A formula is never evaluated here; LibreOffice does that in the grading sandbox (`recalculation.py`).
"""

import re
from dataclasses import dataclass

_CELL = r"\$?([A-Za-z]{1,3})\$?(\d{1,7})"
_AREA = re.compile(rf"{_CELL}(?::{_CELL})?")
_COLUMNS = re.compile(r"\$?([A-Za-z]{1,3}):\$?([A-Za-z]{1,3})")
_LAST_ROW = 1_048_576
_QUOTED = re.compile(r'"(?:[^"]|"")*"')
_SHEET = r"(?:\$?'((?:[^']|'')+)'|\$?([A-Za-z_][\w.]*))[!.]"
_TOKEN = re.compile(
    rf"(?:{_SHEET})?(?:(?<![\w.$]){_CELL}(?::{_CELL})?(?![\w(.])|(?<![\w.$])\$?([A-Za-z]{{1,3}}):\$?([A-Za-z]{{1,3}})(?![\w(]))",
)
_WORD = re.compile(r"(?<![\w.$'!])([A-Za-z_][\w.]*)(?![\w(!'])")
_FUNCTION = re.compile(r"(?<![\w.])([A-Za-z][\w.]*)\s*\(")


@dataclass(frozen=True, slots=True)
class Area:
    """A rectangle of cells on a sheet; rows and columns count from 1."""

    sheet: str
    top: int
    left: int
    bottom: int
    right: int

    def contains(self, sheet: str, row: int, column: int) -> bool:
        """True if the cell is in the rectangle. Names of sheets differ only by more than case."""
        inside = self.top <= row <= self.bottom and self.left <= column <= self.right
        return inside and self.sheet.lower() == sheet.lower()

    def cells(self) -> list[tuple[int, int]]:
        """Row and column of every cell, row by row."""
        return [(row, column) for row in range(self.top, self.bottom + 1) for column in range(self.left, self.right + 1)]


def column_number(letters: str) -> int:
    """`A` is 1, `AA` is 27."""
    number = 0
    for letter in letters.upper():
        number = number * 26 + ord(letter) - 64
    return number


def column_letters(number: int) -> str:
    """1 is `A`, 27 is `AA`."""
    letters = ""
    while number:
        number, rest = divmod(number - 1, 26)
        letters = chr(65 + rest) + letters
    return letters


def cell_name(row: int, column: int) -> str:
    """Row 2, column 3 is `C2`."""
    return f"{column_letters(column)}{row}"


def parse_area(text: str, sheet: str = "") -> Area:
    """`B2`, `B2:D9`, `B:D` or `Sheet!B2:D9` as a rectangle; `ValueError` for anything else."""
    name, _, rest = text.rpartition("!")
    sheet = name.strip("'").replace("''", "'").lstrip("$") or sheet
    if match := _AREA.fullmatch(rest):
        left, top, right, bottom = match.groups()
        right, bottom = right or left, bottom or top
        return _area(sheet, int(top), column_number(left), int(bottom), column_number(right))
    if match := _COLUMNS.fullmatch(rest):
        return _area(sheet, 1, column_number(match[1]), _LAST_ROW, column_number(match[2]))
    raise ValueError(f"{text!r} is not a cell or a range; write `B2`, `B2:D9` or `Sheet!B2`")


def _area(sheet: str, top: int, left: int, bottom: int, right: int) -> Area:
    return Area(sheet, min(top, bottom), min(left, right), max(top, bottom), max(left, right))


def areas_in(formula: str, sheet: str) -> list[Area]:
    """The cells and ranges that a formula names, those without a sheet on `sheet`. Texts in quotes do not count."""
    found: list[Area] = []
    for match in _TOKEN.finditer(_QUOTED.sub('""', formula)):
        quoted, plain, left, top, right, bottom, first, last = match.groups()
        where = (quoted or plain or sheet).replace("''", "'")
        if left:
            found.append(
                _area(where, int(top), column_number(left), int(bottom or top), column_number(right or left)),
            )
        else:
            found.append(_area(where, 1, column_number(first), _LAST_ROW, column_number(last)))
    return found


def words_in(formula: str) -> set[str]:
    """Names in a formula that may be defined names or tables, in lower case."""
    return {word.lower() for word in _WORD.findall(_QUOTED.sub('""', formula))}


def functions_in(formula: str) -> set[str]:
    """Names of the functions a formula calls, in upper case, without prefixes for newer functions."""
    return {name.upper().rpartition("XLFN.")[2].removeprefix("_XLWS.") for name in _FUNCTION.findall(_QUOTED.sub('""', formula))}


def shifted(formula: str, rows: int, columns: int) -> str:
    """A formula moved by rows and columns, as a shared formula is: relative references move, absolute ones stay."""
    pieces = re.split(r'("(?:[^"]|"")*")', formula)
    return "".join(piece if piece.startswith('"') else _shift(piece, rows, columns) for piece in pieces)


def _shift(text: str, rows: int, columns: int) -> str:
    def move(match: re.Match[str]) -> str:
        dollar, letters, fixed, row = match.groups()
        column = letters if dollar else column_letters(max(column_number(letters) + columns, 1))
        return f"{dollar}{column}{fixed}{row if fixed else max(int(row) + rows, 1)}"

    return re.sub(r"(?<![\w.])(\$?)([A-Za-z]{1,3})(\$?)(\d{1,7})(?![\w(.])", move, text)


def plain_formula(formula: str) -> str:
    """A formula without what differs between programs: blanks, case, prefixes, the way sheets are written."""
    pieces = re.split(r'("(?:[^"]|"")*")', formula.removeprefix("="))
    return "".join(
        piece if piece.startswith('"') else re.sub(r"\s+|_xlfn\.|_xlws\.|'", "", piece, flags=re.IGNORECASE).upper()
        for piece in pieces
    )
