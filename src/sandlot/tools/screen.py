"""The screen of a terminal: bytes that programs print become lines of text, as an xterm would show them.

It knows what full-screen programs use: cursor movement, erasing, inserting and deleting, scroll regions, the alternate screen,
tab stops, line drawing, wide and combining characters. Colours and titles are dropped. Programs are hostile: every number is
clamped, every store has a limit, and any bytes leave a screen of the same size. `replies` is what a terminal would answer to
questions about itself.
"""

import codecs
import re
import unicodedata
from collections import deque
from collections.abc import Callable

MAX_ROWS, MAX_COLUMNS = 100, 250
MOST_SCROLLED = 2000
"""Lines kept that have left the screen at the top."""
_MAX_MARKS = 4
"""Combining characters of one cell."""
_MAX_NUMBER = 9999
_MAX_PENDING = 256
"""Characters of an unfinished escape sequence; a longer one is dropped."""
_MAX_REPLIES = 4096

_TOKEN = re.compile(
    r"[^\x00-\x1f\x7f-\x9f]+"
    r"|\x1b\[[0-?]*[ -/]*[@-~]"  # CSI
    r"|\x1b[\]PX^_][^\x07\x18\x1a\x1b]*(?:\x07|\x18|\x1a|\x1b\\)"  # strings: titles, device control
    r"|\x1b[ -/]+[0-~]"
    r"|\x1b[0-OQ-WYZ\\`-~]"
    r"|[\x00-\x1a\x1c-\x1f\x7f-\x9f]"
)
_UNFINISHED = re.compile(r"\x1b(?:\[[0-?]*[ -/]*|[\]PX^_][^\x07\x18\x1a\x1b]*\x1b?|[ -/]*)\Z")
_LINES = dict(zip("`afgijklmnopqrstuvwxyz{|}~", "◆▒°±␉┘┐┌└┼⎺⎻─⎼⎽├┤┴┬│≤≥π≠£·", strict=True))
"""The line drawing characters of the DEC terminals."""

_Row = list[str]
"""One cell per column; the second cell of a wide character is empty."""


def _width(char: str) -> int:
    if char.isascii():
        return 1
    if unicodedata.combining(char) or unicodedata.category(char) in {"Mn", "Me", "Cf"}:
        return 0
    return 2 if unicodedata.east_asian_width(char) in {"W", "F"} else 1


class Screen:
    """A screen of some rows and columns. `feed` takes what programs print; `lines` is what is on it."""

    def __init__(self, rows: int = 24, columns: int = 80) -> None:
        self.rows, self.columns = rows, columns
        self.title_said = ""
        """The last operating system command (`ESC ]`): only the tool that starts a shell reads it."""
        self.replies = b""
        self.scrolled: deque[str] = deque(maxlen=MOST_SCROLLED)
        self.app_cursor = False
        """True if the arrow keys are to send `ESC O` sequences."""
        self.alternate = False
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._pending = ""
        self._skipping = False
        self._reset()

    def _reset(self) -> None:
        self.row, self.column, self._wraps = 0, 0, False
        self._cells = [self._blank() for _ in range(self.rows)]
        self._main: list[_Row] | None = None
        self.alternate = self.app_cursor = False
        self._top, self._bottom = 0, self.rows - 1
        self._autowrap, self._insert, self._origin = True, False, False
        self._saved = (0, 0, False)
        self._kept_main = (0, 0, False)
        self._charsets, self._shift = ["B", "B"], 0
        self._tabs = set(range(8, MAX_COLUMNS, 8))
        self._last = " "

    def _blank(self) -> _Row:
        return [" "] * self.columns

    # -- what is on it -------------------------------------------------------------------------------------------------

    @property
    def lines(self) -> list[str]:
        """The rows as text, without blanks at their ends."""
        return ["".join(row).rstrip() for row in self._cells]

    @property
    def text(self) -> str:
        """The rows, without empty ones at the end."""
        return "\n".join(self.lines).rstrip("\n")

    def resize(self, rows: int, columns: int) -> None:
        """Another size. Lines are cut or filled at the right; rows leave at the top if the cursor would be lost."""
        rows, columns = min(max(rows, 2), MAX_ROWS), min(max(columns, 10), MAX_COLUMNS)
        gone = max(0, self.row - rows + 1)
        if not self.alternate:
            self.scrolled.extend("".join(row).rstrip() for row in self._cells[:gone])
        self.rows, self.columns = rows, columns
        self._cells = self._fitted(self._cells[gone:])
        if self._main is not None:
            self._main = self._fitted(self._main)
        self.row, self.column = min(self.row - gone, rows - 1), min(self.column, columns - 1)
        self._top, self._bottom, self._wraps = 0, rows - 1, False

    def _fitted(self, cells: list[_Row]) -> list[_Row]:
        fitted = [(row + [" "] * self.columns)[: self.columns] for row in cells[: self.rows]]
        for row in fitted:
            if row[-1] and _width(row[-1][0]) == 2:
                row[-1] = " "
        return fitted + [self._blank() for _ in range(self.rows - len(fitted))]

    # -- what comes in -------------------------------------------------------------------------------------------------

    def feed(self, data: bytes) -> None:
        """Take what a program printed; sequences may be split anywhere."""
        text = self._pending + self._decoder.decode(data)
        place = 0
        while place < len(text):
            if self._skipping:
                place = self._skip(text, place)
                continue
            match = _TOKEN.match(text, place)
            if match is not None:
                self._take(match.group())
                place = match.end()
            elif _UNFINISHED.match(text, place):
                break
            else:
                place += 1  # an escape that begins nothing known: it is dropped, what follows is text
        self._pending = text[place:]
        if len(self._pending) > _MAX_PENDING:
            self._skipping = self._pending[1:2] in {"]", "P", "X", "^", "_"}
            self._pending = ""

    def _skip(self, text: str, place: int) -> int:
        """Skip to the end of a string that is too long to keep."""
        end = re.compile(r"\x07|\x18|\x1a|\x1b").search(text, place)
        if end is None:
            return len(text)
        self._skipping = False
        return end.end() if end.group() != "\x1b" else end.end() + (text[end.end() : end.end() + 1] == "\\")

    def _take(self, token: str) -> None:
        first = token[0]
        if first == "\x1b":
            self._escape(token)
        elif first < " " or "\x7f" <= first <= "\x9f":
            self._control(first)
        else:
            self._write(token)

    def _control(self, char: str) -> None:
        match char:
            case "\n" | "\x0b" | "\x0c" | "\x84":
                self._down()
            case "\r":
                self.column, self._wraps = 0, False
            case "\b":
                self._move(0, -1)
            case "\t":
                later = [tab for tab in self._tabs if self.column < tab < self.columns]
                self.column, self._wraps = min(later, default=self.columns - 1), False
            case "\x0e" | "\x0f":
                self._shift = 1 if char == "\x0e" else 0
            case "\x85":
                self.column = 0
                self._down()
            case "\x88":
                self._tabs.add(self.column)
            case "\x8d":
                self._up()
            case _:
                pass

    def _escape(self, token: str) -> None:
        kind, rest = token[1], token[2:]
        if kind == "[":
            self._sequence(token)
        elif kind in "]PX^_":
            self.title_said = rest.rstrip("\x07\x1b\\\x18\x1a")[:_MAX_PENDING] if kind == "]" else self.title_said
        elif kind in "()" and rest:
            self._charsets["()".index(kind)] = rest[-1]
        else:
            simple: dict[str, Callable[[], None]] = {
                "7": self._save,
                "8": self._restore,
                "D": self._down,
                "M": self._up,
                "c": self._reset,
                "E": lambda: self._control("\x85"),
                "H": lambda: self._control("\x88"),
            }
            if kind in simple:
                simple[kind]()

    # -- writing -------------------------------------------------------------------------------------------------------

    def _write(self, text: str) -> None:
        drawing = self._charsets[self._shift] == "0"
        if text.isascii() and not drawing and not self._insert and self._autowrap:
            self._write_plain(text)
            return
        for char in text:
            shown = _LINES.get(char, char) if drawing else char
            width = _width(shown)
            if width == 0:
                self._combine(shown)
                continue
            self._put(shown if shown.isprintable() else "\ufffd", width)

    def _write_plain(self, text: str) -> None:
        """The same for plain text, a row at a time."""
        place = 0
        while place < len(text):
            if self._wraps:
                self.column = 0
                self._down()
            piece = text[place : place + self.columns - self.column]
            row = self._cells[self.row]
            self._clear_cells(row, self.column, self.column + len(piece))
            row[self.column : self.column + len(piece)] = piece
            place += len(piece)
            self.column += len(piece)
            self._wraps = self.column >= self.columns
            self.column = min(self.column, self.columns - 1)
        self._last = text[-1]

    def _combine(self, mark: str) -> None:
        """Add a combining character to the one before the cursor. What changes the direction of text is dropped."""
        column = self.column if self._wraps else self.column - 1
        row = self._cells[self.row]
        if column > 0 and not row[column]:
            column -= 1
        if column >= 0 and unicodedata.combining(mark) and len(row[column]) <= _MAX_MARKS:
            row[column] += mark

    def _put(self, char: str, width: int) -> None:
        if self._wraps and self._autowrap:
            self.column = 0
            self._down()
        if width > self.columns - self.column:
            if not self._autowrap:
                return
            self.column = 0
            self._down()
        row = self._cells[self.row]
        if self._insert:
            row[self.column : self.column] = [" "] * width
            del row[self.columns :]
            self._unbreak_row(row)
        self._clear_cells(row, self.column, self.column + width)
        row[self.column] = self._last = char
        if width == 2:
            row[self.column + 1] = ""
        self.column += width
        self._wraps = self.column >= self.columns
        self.column = min(self.column, self.columns - 1)

    def _clear_cells(self, row: _Row, start: int, end: int) -> None:
        """Blank some cells; half of a wide character that is left is blanked too."""
        start, end = max(0, start), min(end, self.columns)
        if start < self.columns and not row[start] and start:
            row[start - 1] = " "
        if end < self.columns and not row[end]:
            row[end] = " "
        row[start:end] = [" "] * (end - start)

    def _unbreak_row(self, row: _Row) -> None:
        """Blank halves of wide characters after cells moved."""
        for column, cell in enumerate(row):
            wide = bool(cell) and _width(cell[0]) == 2
            if wide and (column + 1 >= self.columns or row[column + 1]):
                row[column] = " "
            if not cell and (column == 0 or not row[column - 1] or _width(row[column - 1][0]) != 2):
                row[column] = " "

    # -- moving --------------------------------------------------------------------------------------------------------

    def _move(self, down: int, right: int) -> None:
        """Move the cursor; a scroll region holds it if it is inside."""
        low = self._top if self.row >= self._top else 0
        high = self._bottom if self.row <= self._bottom else self.rows - 1
        self.row = min(max(self.row + down, low), high) if down else self.row
        self.column = min(max(self.column + right, 0), self.columns - 1)
        self._wraps = False

    def _go(self, row: int | None, column: int | None) -> None:
        if row is not None:
            first = self._top if self._origin else 0
            last = self._bottom if self._origin else self.rows - 1
            self.row = min(max(first + row, first), last)
        if column is not None:
            self.column = min(max(column, 0), self.columns - 1)
        self._wraps = False

    def _down(self) -> None:
        self._wraps = False
        if self.row == self._bottom:
            self._scroll(1)
        elif self.row < self.rows - 1:
            self.row += 1

    def _up(self) -> None:
        self._wraps = False
        if self.row == self._top:
            self._scroll(-1)
        elif self.row > 0:
            self.row -= 1

    def _scroll(self, count: int, top: int | None = None) -> None:
        """Move the lines of the scroll region up, or down if `count` is negative; new ones are blank."""
        first = self._top if top is None else top
        size = self._bottom - first + 1
        count = min(max(count, -size), size)
        region = self._cells[first : self._bottom + 1]
        blank = [self._blank() for _ in range(abs(count))]
        if count > 0:
            if first == 0 and top is None and not self.alternate:
                self.scrolled.extend("".join(row).rstrip() for row in region[:count])
            region = region[count:] + blank
        else:
            region = blank + region[: size + count]
        self._cells[first : self._bottom + 1] = region

    def _save(self) -> None:
        self._saved = (self.row, self.column, self._wraps)

    def _restore(self) -> None:
        self._place(self._saved)

    def _place(self, saved: tuple[int, int, bool]) -> None:
        self.row, self.column, self._wraps = min(saved[0], self.rows - 1), min(saved[1], self.columns - 1), saved[2]

    # -- control sequences ---------------------------------------------------------------------------------------------

    def _sequence(self, token: str) -> None:
        """`ESC [`, private marks and numbers, and a letter."""
        body, letter = token[2:-1], token[-1]
        mark = body[:1] if body[:1] in {"?", ">", "=", "<"} else ""
        if any(char in " !\"#$%&'()*+,-./" for char in body):
            if letter == "p" and "!" in body:
                self._top, self._bottom, self._origin, self._insert = 0, self.rows - 1, False, False
            return
        numbers = [min(int(piece[:8]), _MAX_NUMBER) if piece.isdecimal() else 0 for piece in re.split("[;:]", body[len(mark) :])]
        if mark == "?" and letter in "hl":
            for number in numbers[:16]:
                self._mode(number, on=letter == "h")
        elif not mark:
            self._plain_sequence(letter, numbers)

    def _plain_sequence(self, letter: str, numbers: list[int]) -> None:
        first = numbers[0]
        second = numbers[1] if len(numbers) > 1 else 0
        if letter in "ABCDEFGHadef`":
            self._cursor(letter, max(first, 1), max(second, 1))
        elif letter in "JKXP@":
            self._edit(letter, first, max(first, 1))
        elif letter in "STLM":
            self._shift_lines(letter, max(first, 1))
        elif letter in "hl":
            self._insert = letter == "h" if first == 4 else self._insert
        else:
            self._other(letter, first, second)

    def _cursor(self, letter: str, count: int, second: int) -> None:
        match letter:
            case "A" | "F":
                self._move(-count, 0)
            case "B" | "e" | "E":
                self._move(count, 0)
            case "C" | "a":
                self._move(0, count)
            case "D":
                self._move(0, -count)
            case "G" | "`":
                self._go(None, count - 1)
            case "d":
                self._go(count - 1, None)
            case _:
                self._go(count - 1, second - 1)
        if letter in "EF":
            self._go(None, 0)

    def _shift_lines(self, letter: str, count: int) -> None:
        if letter in "ST":
            self._scroll(count if letter == "S" else -count)
        else:
            self._open_lines(count if letter == "M" else -count)

    def _other(self, letter: str, first: int, second: int) -> None:
        match letter:
            case "s":
                self._save()
            case "u":
                self._restore()
            case "r":
                self._set_region(first, second or self.rows)
            case "I":
                for _ in range(min(max(first, 1), MAX_COLUMNS // 8)):
                    self._control("\t")
            case "Z":
                self._go(None, max((tab for tab in self._tabs if tab < self.column), default=0))
            case "g" if first == 3:
                self._tabs.clear()
            case "g":
                self._tabs.discard(self.column)
            case "b":
                self._write(self._last * min(max(first, 1), self.columns))
            case "n":
                self._report(first)
            case "c":
                self._reply(b"\x1b[?6c")
            case _:
                pass

    def _edit(self, letter: str, first: int, count: int) -> None:
        """Erase, delete or insert cells."""
        row, column = self._cells[self.row], self.column
        self._wraps = False
        if letter == "J":
            self._erase_screen(first)
        elif letter == "K" and first <= 2:
            start, end = ((column, self.columns), (0, column + 1), (0, self.columns))[first]
            self._clear_cells(row, start, end)
        elif letter == "X":
            self._clear_cells(row, column, column + count)
        elif letter == "P":
            del row[column : column + count]
            row += [" "] * (self.columns - len(row))
            self._unbreak_row(row)
        elif letter == "@":
            row[column:column] = [" "] * min(count, self.columns)
            del row[self.columns :]
            self._unbreak_row(row)

    def _erase_screen(self, which: int) -> None:
        if which == 3:
            self.scrolled.clear()
        if which == 0:
            self._clear_cells(self._cells[self.row], self.column, self.columns)
        if which == 1:
            self._clear_cells(self._cells[self.row], 0, self.column + 1)
        rows = {0: range(self.row + 1, self.rows), 1: range(self.row), 2: range(self.rows)}.get(which, range(0))
        for row in rows:
            self._cells[row] = self._blank()

    def _open_lines(self, count: int) -> None:
        """Delete lines at the cursor, or insert some if `count` is negative; only inside the scroll region."""
        if self._top <= self.row <= self._bottom:
            self._scroll(count, self.row)
            self.column, self._wraps = 0, False

    def _set_region(self, top: int, bottom: int) -> None:
        top, bottom = max(top, 1) - 1, min(bottom, self.rows) - 1
        if top < bottom:
            self._top, self._bottom = top, bottom
            self._go(0, 0)

    def _mode(self, number: int, *, on: bool) -> None:
        match number:
            case 1:
                self.app_cursor = on
            case 6:
                self._origin = on
                self._go(0, 0)
            case 7:
                self._autowrap, self._wraps = on, False
            case 47 | 1047 | 1049:
                self._switch(number, on=on)
            case 1048:
                (self._save if on else self._restore)()
            case _:
                pass

    def _switch(self, number: int, *, on: bool) -> None:
        """To the alternate screen, which full-screen programs use, or back."""
        if on and self._main is None:
            self._kept_main = (self.row, self.column, self._wraps)
            self._main, self._cells = self._cells, [self._blank() for _ in range(self.rows)]
        elif not on and self._main is not None:
            self._cells, self._main = self._main, None
            if number == 1049:
                self._place(self._kept_main)
        self.alternate = self._main is not None

    def _report(self, what: int) -> None:
        if what == 5:
            self._reply(b"\x1b[0n")
        elif what == 6:
            self._reply(f"\x1b[{self.row + 1};{self.column + 1}R".encode())

    def _reply(self, data: bytes) -> None:
        if len(self.replies) < _MAX_REPLIES:
            self.replies += data

    def take_replies(self) -> bytes:
        """What a terminal would send back, once."""
        replies, self.replies = self.replies, b""
        return replies
