"""What a user is told, and how its end is read."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandlot.core.errors import ConfigError
from sandlot.core.persona import Persona, read_reply, without_mark

MARK = "END-0A1B2C"
ADA = Persona(who="You are Ada and want your money back.", facts={"order number": "A-17"}, done="the money is on its way")


def test_it_is_told_who_it_is_what_it_knows_and_how_to_end():
    told = ADA.instructions(MARK)
    assert "You are Ada and want your money back." in told
    assert "- order number: A-17" in told
    assert "You are done when the money is on its way." in told
    assert MARK in told


def test_measuring_examples_are_not_told():
    told = Persona(who="You wait.", solved=("All booked.",), unsolved=("One moment.",)).instructions(MARK)
    assert "All booked." not in told
    assert "One moment." not in told


def test_without_facts_there_is_no_list_of_them():
    assert "What you know" not in Persona(who="You wait.").instructions(MARK)


@pytest.mark.parametrize("fields", [{"who": " "}, {"who": "x", "done": ""}, {"who": "x", "facts": {"a": " "}}])
def test_an_empty_persona_is_refused(fields):
    with pytest.raises(ConfigError, match=r"empty|no words"):
        Persona(**fields)


@pytest.mark.parametrize(
    "text", [f"Thanks.\n{MARK}", f"Thanks. {MARK}", f"Thanks.\n**{MARK}**\n", f"Thanks.\n`{MARK}`.", f"Thanks.\n{MARK.lower()}!"]
)
def test_a_mark_at_the_very_end_is_the_end_and_is_not_passed_on(text):
    reading = read_reply(text, MARK)
    assert (reading.text.rstrip(".! \n"), reading.done) == ("Thanks", True)


@pytest.mark.parametrize(
    "text", [f"I say {MARK} when I am happy.", "END", "END-0A1B2", "We are at the end", f"{MARK}\nBut wait."]
)
def test_anything_else_is_not_the_end(text):
    reading = read_reply(text, MARK)
    assert not reading.done
    assert MARK not in reading.text


def test_a_mark_alone_is_an_end_without_words():
    assert read_reply(f"\n{MARK}\n", MARK).text == ""
    assert read_reply(f"\n{MARK}\n", MARK).done


@given(st.lists(st.sampled_from([MARK, MARK.lower(), "END-", "0A1B2C", "*", " ", "\n", "ok", "[", "]"]), max_size=12))
def test_the_mark_never_gets_through(pieces):
    text = "".join(pieces)
    assert MARK.casefold() not in read_reply(text, MARK).text.casefold()
    assert without_mark(without_mark(text, MARK), MARK) == without_mark(text, MARK)


def test_a_huge_text_is_read_at_once():
    assert not read_reply(" *" * 2_000_000 + "x", MARK).done
