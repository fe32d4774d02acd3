"""What others wrote is safe to print, and nothing of it is lost."""

import json

import pytest

from sandlot.core.text import one_line, printable, printable_json

HOSTILE = "\x1b[2J\x9b2J\x7f\x85\u202e\u2066\u200b\ufeff\u2028\U000e0041 gr\u00fc\u00df \u65e5"


def test_nothing_that_a_terminal_obeys_is_left():
    for text in (
        printable(HOSTILE),
        one_line(HOSTILE),
        printable_json(json.dumps(HOSTILE, ensure_ascii=False).encode()).decode(),
    ):
        assert text.isprintable()
        assert "gr\u00fc\u00df \u65e5" in text


@pytest.mark.parametrize("text", [HOSTILE, "plain", "", "\U0001f600", "\x7f", "a\nb"])
def test_json_keeps_its_value(text):
    assert json.loads(printable_json(json.dumps({text: [text]}, ensure_ascii=False).encode())) == {text: [text]}


def test_newlines_stay_in_text_and_go_from_a_line():
    assert (printable("a\n\tb"), one_line("a\n\tb")) == ("a\n\tb", "a b")


def test_what_is_long_is_cut():
    assert (printable("\x1b" * 9, 6), one_line("a b c", 3)) == ("\\x1b\\x", "a b")
