"""The screen of a terminal: what programs print, and what hostile ones print."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandlot.tools import screen as screens
from sandlot.tools.screen import MAX_COLUMNS, MAX_ROWS, MOST_SCROLLED, Screen


def drawn(data: str | bytes, rows: int = 4, columns: int = 10) -> Screen:
    screen = Screen(rows, columns)
    screen.feed(data.encode() if isinstance(data, str) else data)
    return screen


@pytest.mark.parametrize(
    ("data", "lines"),
    [
        ("one\r\ntwo", ["one", "two", "", ""]),
        ("0123456789", ["0123456789", "", "", ""]),
        ("0123456789ab", ["0123456789", "ab", "", ""]),
        ("0123456789\r\nab", ["0123456789", "ab", "", ""]),  # the last column does not wrap by itself
        ("abc\rX\b\bY", ["Ybc", "", "", ""]),
        ("a\tb\tc", ["a       bc", "", "", ""]),
        ("\x1b[31mred\x1b[0m \x1b[1;38;5;200mx", ["red x", "", "", ""]),
        ("\x1b[2;3Hx\x1b[Ay\x1b[2Bz\x1b[1D\x1b[1Dw", ["   y", "  x", "   wz", ""]),
        ("abcdef\x1b[1;3H\x1b[K", ["ab", "", "", ""]),
        ("abcdef\x1b[1;3H\x1b[1K", ["   def", "", "", ""]),
        ("abcdef\x1b[1;3H\x1b[2P", ["abef", "", "", ""]),
        ("abcdef\x1b[1;3H\x1b[2@", ["ab  cdef", "", "", ""]),
        ("abcdef\x1b[1;3H\x1b[2X", ["ab  ef", "", "", ""]),
        ("abc\x1b[1;2H\x1b[4hXY\x1b[4lZ", ["aXYZc", "", "", ""]),
        ("1\r\n2\r\n3\r\n4\x1b[2;1H\x1b[L", ["1", "", "2", "3"]),
        ("1\r\n2\r\n3\r\n4\x1b[2;1H\x1b[M", ["1", "3", "4", ""]),
        ("1\r\n2\r\n3\r\n4\x1b[2;3r\x1b[3;1H\n", ["1", "3", "", "4"]),  # only the region scrolls
        ("1\r\n2\r\n3\r\n4\x1b[1;1H\x1bM", ["", "1", "2", "3"]),
        ("1\r\n2\x1b[2J\x1b[Hx", ["x", "", "", ""]),
        ("ab\x1b7cd\x1b8X", ["abXd", "", "", ""]),
        ("a\x1b[5b", ["aaaaaa", "", "", ""]),
        ("\x1b(0lqk\x1b(Bq", ["┌─┐q", "", "", ""]),
        ("\x1b]0;a title\x07x\x1b]2;another\x1b\\y", ["xy", "", "", ""]),
        ("\x1bP1$r0m\x1b\\x\x1b_hidden\x1b\\y", ["xy", "", "", ""]),
        ("漢字x", ["漢字x", "", "", ""]),
        ("123456789漢", ["123456789", "漢", "", ""]),  # half a wide character does not fit
        ("漢字\x1b[1;2HX", [" X字", "", "", ""]),  # overwriting a half removes the other
        ("e\u0301x", ["e\u0301x", "", "", ""]),
        ("a\u202eb", ["ab", "", "", ""]),  # text keeps its direction
    ],
)
def test_it_shows_what_a_terminal_shows(data, lines):
    assert drawn(data).lines == lines


def test_a_full_screen_program_leaves_what_was_there_before():
    screen = drawn("$ vim\r\n\x1b[?1049h\x1b[2J\x1b[Hedit me")
    assert (screen.text, screen.alternate) == ("edit me", True)
    screen.feed(b"\x1b[?1049l$ ")
    assert (screen.text, screen.alternate) == ("$ vim\n$", False)


def test_lines_that_leave_at_the_top_are_kept_up_to_a_limit(monkeypatch):
    assert drawn("").scrolled.maxlen == MOST_SCROLLED
    monkeypatch.setattr(screens, "MOST_SCROLLED", 20)
    screen = drawn("".join(f"{number}\r\n" for number in range(50)))
    assert list(screen.scrolled) == [str(number) for number in range(27, 47)]
    hidden = drawn("\x1b[?1049h" + "x\r\n" * 50)
    assert not hidden.scrolled  # a full-screen program's lines are not history


def test_a_terminal_answers_questions_about_itself_a_limited_number_of_times():
    screen = drawn("ab\x1b[6n\x1b[5n\x1b[c")
    assert screen.take_replies() == b"\x1b[1;3R\x1b[0n\x1b[?6c"
    assert screen.take_replies() == b""
    screen.feed(b"\x1b[6n" * 10_000)
    assert len(screen.take_replies()) < 5000


def test_another_size_keeps_the_cursor_on_the_screen():
    screen = drawn("1\r\n2\r\n3\r\n4 and more")
    screen.resize(2, 20)
    assert (screen.lines, list(screen.scrolled), screen.row) == (["3", "4 and more"], ["1", "2"], 1)
    screen.resize(4, 10)
    screen.feed(b"\r\nnext")
    assert screen.lines == ["3", "4 and more", "next", ""]


_PIECES = st.one_of(
    st.binary(max_size=12),
    st.text(max_size=8).map(lambda text: text.encode("utf-8", "replace")),
    st.sampled_from(
        [b"\x1b", b"\x1b[", b"\x1b]", b"\x1bP", b"\x07", b"\x1b\\", b"\n", b"\x1b[?1049h", b"\x1b[?1049l", b"\x1bc", b"\x84"]
    ),
    st.builds(
        lambda numbers, letter: f"\x1b[{';'.join(map(str, numbers))}{letter}".encode(),
        st.lists(st.one_of(st.integers(0, 12), st.integers(0, 10**20)), max_size=3),
        st.sampled_from("ABCDEFGHIJKLMPSTXZ@`abcdefghlmnrsu"),
    ),
    st.sampled_from(["漢".encode(), "🙂".encode(), "e\u0301".encode(), "\u202e".encode()]),
)


@given(st.lists(_PIECES, max_size=60), st.integers(2, 8), st.integers(10, 20))
def test_any_bytes_leave_a_whole_screen(pieces, rows, columns):
    screen = Screen(rows, columns)
    for piece in pieces:
        screen.feed(piece)
    cells = screen._cells
    assert len(cells) == rows
    assert all(len(row) == columns for row in cells)
    assert 0 <= screen.row < rows
    assert 0 <= screen.column < columns
    assert not any(char < " " or "\x7f" <= char <= "\x9f" for line in screen.lines for char in line)
    assert len(screen._pending) <= 256


@given(st.lists(_PIECES, max_size=40), st.data())
def test_where_the_bytes_are_split_does_not_matter(pieces, data):
    whole = b"".join(pieces)
    one, other = Screen(5, 12), Screen(5, 12)
    one.feed(whole)
    place = data.draw(st.integers(0, len(whole)))
    other.feed(whole[:place])
    other.feed(whole[place:])
    assert (one.lines, one.row, one.column) == (other.lines, other.row, other.column)


@given(st.lists(_PIECES, max_size=30), st.lists(st.tuples(st.integers(-5, 10**6), st.integers(-5, 10**6)), max_size=4))
def test_any_size_is_bounded(pieces, sizes):
    screen = Screen(4, 12)
    for piece, (rows, columns) in zip(pieces, [*sizes, (4, 12)] * len(pieces), strict=False):
        screen.feed(piece)
        screen.resize(rows, columns)
    assert 2 <= screen.rows <= MAX_ROWS
    assert 10 <= screen.columns <= MAX_COLUMNS
    assert all(len(row) == screen.columns for row in screen._cells)


def test_a_string_without_an_end_takes_no_memory():
    screen = drawn(b"\x1b]0;" + b"x" * 100_000)
    assert len(screen._pending) <= 256
    screen.feed(b"more\x07shown")
    assert screen.text == "shown"
