import pytest

from sandlot.apps.desktop.keyboard import MAX_TEXT, checked_keys, checked_modifiers, checked_text
from sandlot.core.errors import ToolError


@pytest.mark.parametrize(
    ("keys", "found"),
    [
        ("ctrl+s", ("s", ["Control_L"])),
        ("Ctrl+Shift+S", ("S", ["Control_L", "Shift_L"])),
        ("ctrl+S", ("s", ["Control_L"])),
        ("Enter", ("Return", [])),
        ("alt+F4", ("F4", ["Alt_L"])),
        ("PageDown", ("Page_Down", [])),
        ("+", ("+", [])),
        ("é", ("é", [])),
        ("shift", ("Shift_L", [])),
    ],
)
def test_keys_are_named_as_people_write_them(keys: str, found: tuple[str, list[str]]):
    assert checked_keys(keys) == found


@pytest.mark.parametrize("keys", ["", "ctrl+", "hyper+s", "ctrl+s+x", "F99", "XF86PowerOff", "\x1b", "a" * 5000, "++"])
def test_a_key_that_does_not_exist_is_refused_with_the_names_that_do(keys: str):
    with pytest.raises(ToolError, match=r"there is no key|cannot be held") as refused:
        checked_keys(keys)
    assert len(str(refused.value)) < 400


def test_only_real_modifiers_are_held_during_a_click():
    assert checked_modifiers(["ctrl", "Shift", "ctrl"]) == ["Control_L", "Shift_L"]
    with pytest.raises(ToolError, match="cannot be held"):
        checked_modifiers(["Return"])


def test_text_is_typed_as_it_is_with_newlines_and_tabs():
    assert checked_text("a\tb\r\nc €") == "a\tb\nc €"


@pytest.mark.parametrize("text", ["\x1b[2J", "a\0b", "\x7f", "\u2028", "\ud800"])
def test_control_characters_are_refused_by_their_number(text: str):
    with pytest.raises(ToolError, match=r"U\+[0-9A-F]{4} cannot be typed"):
        checked_text(text)


def test_long_text_is_refused_with_the_limit():
    assert len(checked_text("x" * MAX_TEXT)) == MAX_TEXT
    with pytest.raises(ToolError, match=f"at most {MAX_TEXT}"):
        checked_text("x" * (MAX_TEXT + 1))
