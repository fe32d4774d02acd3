"""System tests that share something run in one process."""

from pathlib import Path

import pytest

from groups import GROUPS, LONG, group_of, place_of

ROOT = Path(__file__).parents[1]


@pytest.mark.parametrize(
    ("test", "group"),
    [
        ("environments/office/tests/test_office.py::test_one[a@b]", "office"),
        ("tests/system/test_office.py::test_two", "office"),
        ("tests/e2e/test_cold_starts.py::test_two_cold_starts_and_the_same_play_have_the_same_bytes[proofs]", "proofs"),
        ("tests/e2e/test_cold_starts.py::test_two_cold_starts_and_the_same_play_have_the_same_bytes[company]", None),
        ("tests/system/test_wheel.py::test_three", None),
    ],
)
def test_a_test_is_in_the_group_of_what_it_shares_or_of_its_file(test, group):
    assert group_of(test) == (group or test.partition("::")[0])


def test_every_name_is_that_of_something():
    beginnings = [beginning for group in GROUPS.values() for beginning in group]
    files = [name for name in LONG if name not in GROUPS]
    assert [name for name in (*beginnings, *files) if not (ROOT / name.partition("::")[0]).exists()] == []


def test_long_groups_begin_first():
    assert (
        place_of("tests/system/test_office.py::test_two")
        < place_of("tests/test_docs.py::test_one")
        < place_of("tests/x.py::test")
    )
