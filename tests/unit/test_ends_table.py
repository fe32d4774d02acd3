"""The table of `docs/concepts/ends-and-outcomes.md` says how every rollout can end, and each row names a test that shows it."""

import ast
from pathlib import Path

import pytest

from sandlot.core.syntax import parse_python
from sandlot.core.types import End, Side

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "concepts" / "ends-and-outcomes.md"


def rows() -> list[list[str]]:
    """The cells of each row."""
    _, _, section = PAGE.read_text().partition("## Every way a rollout can end\n")
    lines = [line for line in section.partition("\n## ")[0].splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines[1:]]


@pytest.mark.parametrize("row", rows(), ids=lambda row: row[0])
def test_each_row_names_a_test_that_is_there(row: list[str]):
    assert len(row) == 6
    file, _, name = row[-1].strip("`").partition("::")
    names = {
        node.name
        for node in ast.walk(parse_python((ROOT / file).read_text()))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    }
    assert name in names


def test_every_end_and_every_side_is_in_the_table():
    ends, results = " ".join(row[2] for row in rows()), " ".join(row[3] for row in rows())
    assert not [end.value for end in End if f"`{end.value}`" not in ends]
    assert not [side.value for side in Side if f"`Failed({side.value})`" not in results]
    assert "`Cancelled`" in results


def test_nothing_that_happens_after_the_agent_acted_in_the_environment_fails_the_rollout():
    lost = [row[0] for row in rows() if "Failed(environment)" in row[3]]
    assert lost == [
        'a tool crashes, with `on_crash="fail"`',
        "setup or opening breaks",
        "a state that was unstorable from the start",
    ]
