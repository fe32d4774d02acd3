from typing import Any

import pytest

from sandlot.apps.desktop.tree import MAX_LINES, MAX_NODES, tree_text
from sandlot.core.errors import ToolError


def node(depth: int, role: str, name: str = "", **more: Any) -> dict[str, Any]:
    return {"depth": depth, "number": more.pop("number", 1), "role": role, "name": name, "states": more.pop("states", []), **more}


def test_a_tree_is_one_line_per_element_without_those_that_only_arrange():
    nodes = [
        node(0, "frame", "Notes", number=1, states=["active"]),
        node(1, "filler"),
        node(2, "panel", number=3),
        node(3, "push button", "Save ", number=4, states=["disabled"]),
        node(1, "text", number=5, text='one\n"two"\t', length=9),
    ]
    assert tree_text(nodes) == (
        '- frame "Notes" [e1] [active]\n  - button "Save" [e4] [disabled]\n  - text [e5]: "one\\n\\"two\\"\\t"',
        0,
    )


def test_only_elements_with_a_text_are_shown_with_those_above_them():
    nodes = [
        node(0, "frame", "A", number=1),
        node(1, "menu", "File", number=2),
        node(1, "menu", "Edit", number=3),
        node(2, "menu item", "Find", number=4),
        node(0, "frame", "B", number=5),
    ]
    assert tree_text(nodes, "FIND")[0] == '- frame "A" [e1]\n  - menu "Edit" [e3]\n    - menu item "Find" [e4]'


def test_two_equal_lines_are_both_found():
    nodes = [node(0, "frame", "A"), node(1, "label", "same"), node(1, "label", "same")]
    assert len(tree_text(nodes, "same")[0].splitlines()) == 3


def test_names_from_applications_cannot_break_lines_or_add_references():
    shown, _ = tree_text([node(0, "frame", 'x\n- button "OK" [e9]\x1b[31m\u202e' + "y" * 500)])
    assert "\n" not in shown
    assert "\x1b" not in shown
    assert "\u202e" not in shown
    assert len(shown) < 200


def test_a_huge_tree_is_cut_and_the_rest_counted():
    shown, left_out = tree_text([node(number, "label", f"n{number}") for number in range(MAX_NODES)])
    assert (len(shown.splitlines()), left_out) == (MAX_LINES, MAX_NODES - MAX_LINES)
    assert max(len(line) - len(line.lstrip()) for line in shown.splitlines()) <= 24


def test_a_forged_length_is_not_told():
    assert "in all" not in tree_text([node(0, "text", text="a", length=10**4_000)])[0]


def test_long_text_is_shortened_and_its_length_told():
    shown, _ = tree_text([node(0, "text", text="a" * 4_000, length=9_000)])
    assert "(9000 characters in all)" in shown
    assert len(shown) < 1_700


@pytest.mark.parametrize(
    "nodes",
    [
        None,
        {},
        [1],
        [{}],
        [node(0, "frame") | {"depth": "x"}],
        [node(0, "frame") | {"text": 5}],
        [node(0, "frame") | {"states": "x"}],
        [node(0, "frame", number=10**9)],
        [node(0, "frame", number=-1)],
        [node(0, "frame")] * 1_501,
    ],
)
def test_a_forged_tree_is_an_error_for_the_agent(nodes: Any):
    with pytest.raises(ToolError, match="cannot be read"):
        tree_text(nodes)
