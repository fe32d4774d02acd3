import pytest

from mutations.draw import drawn_patches
from mutations.operators import candidates_of
from mutations.places import add_calls, changed_line

SOURCE = b'''
"""Text with 1 < 2."""
LIMIT = 5


def counted(things: list[int], most: int = 3, *, strictly: bool = False) -> int:
    """How many; 0 and 1 count."""
    total = 0
    for thing in things:
        if thing < most and not strictly:
            total += thing * 2
        elif thing is None:
            raise ValueError(f"{thing + 1} is nothing")
    log.info("counted", total)
    try:
        things.append(total)
    except TypeError:
        return -1
    return total


class Shown:
    def __repr__(self):
        return "1" + "2"
'''
OPERATORS = {
    "None returned",
    "and/or swapped",
    "arithmetic changed",
    "call deleted",
    "comparison flipped",
    "condition negated",
    "default changed",
    "except body removed",
    "integer off by one",
    "raise removed",
}


@pytest.fixture
def tree(tmp_path):
    for room in ("one", "two"):
        (tmp_path / "src/sandlot" / room).mkdir(parents=True)
        (tmp_path / "src/sandlot" / room / "counting.py").write_bytes(SOURCE)
    (tmp_path / "src/sandlot/beside.py").write_bytes(SOURCE)
    return tmp_path


def test_the_same_seed_on_the_same_tree_gives_the_same_patches(tree):
    found = drawn_patches(tree, 1, 3)
    assert found == drawn_patches(tree, 1, 3)
    assert list(found.values()) != list(drawn_patches(tree, 2, 3).values())


def test_every_room_is_drawn_from_and_no_function_twice(tree):
    assert list(drawn_patches(tree, 1, 9)) == ["001-one-counting.patch", "002-top-beside.patch", "003-two-counting.patch"]


def test_every_operator_finds_its_places():
    assert {one.operator for one in candidates_of(SOURCE)} == OPERATORS


def test_every_edit_leaves_another_program():
    for one in candidates_of(SOURCE):
        assert compile(one.applied(SOURCE), "mutated", "exec") != compile(SOURCE, "mutated", "exec"), one


def test_texts_annotations_logs_and_representations_are_left_alone():
    touched = {one.line for one in candidates_of(SOURCE)}
    assert touched == {6, 8, 10, 11, 12, 13, 16, 18, 19}


@pytest.mark.parametrize(
    ("line", "before"),
    [
        (6, "    total = 0"),
        (10, "        if thing < most and not strictly:"),
        (11, "            total += thing * 2"),
        (12, "        if thing < most and not strictly:"),
        (17, "    try:"),
        (18, "        return -1"),
    ],
)
def test_a_place_is_noted_before_its_statement(tmp_path, line, before):
    file = tmp_path / "counting.py"
    file.write_bytes(SOURCE)
    assert add_calls(file, {"here": line}) == []
    lines = file.read_text().splitlines()
    at = next(number for number, text in enumerate(lines) if "sandlot_recorder" in text)
    assert lines[at + 1] == before
    compile(file.read_text(), str(file), "exec")


def test_a_place_outside_of_functions_cannot_be_noted(tmp_path):
    file = tmp_path / "counting.py"
    file.write_bytes(SOURCE)
    assert add_calls(file, {"here": 3}) == ["here"]
    assert file.read_bytes() == SOURCE


def test_the_first_line_that_differs_is_the_changed_one():
    assert changed_line("a\nb\nc\n", "a\nx\nc\n") == 2
