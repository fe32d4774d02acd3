"""Rows that do not fit are named; data is described."""

import pytest

from sandlot.core.errors import ConfigError
from sandlot.interop.data.rows import DataRow, RowProvenance
from sandlot.interop.data.stats import describe_rows
from sandlot.interop.data.validate import read_schema, validate_rows


def rows(*values):
    return [DataRow(value, RowProvenance("a", number, "")) for number, value in enumerate(values, 1)]


def found(listed, schema=None):
    return [(each.row, each.message) for each in validate_rows(listed, schema).findings]


def test_a_schema():
    schema = {"type": "object", "required": ["q"], "properties": {"q": {"type": "string"}}}
    assert [row for row, _ in found(rows({"q": "x"}, {"q": 1}, {}), schema)] == ["a:2", "a:3"]
    with pytest.raises(ConfigError, match="schema cannot be used"):
        found(rows({}), {"$ref": "http://example.org"})


def test_the_fields_of_a_task():
    listed = rows(
        {"id": "a", "prompt": "x"},
        {"id": "a", "prompt": "x"},
        {"id": "a b", "prompt": "x"},
        {"id": "c", "prompt": " "},
        {"id": "d", "prompt": "x", "answer": 1},
    )
    assert [row for row, _ in found(listed, "task")] == ["a:2", "a:3", "a:4", "a:5"]


def test_without_a_schema_the_odd_ones_are_named():
    listed = rows(*({"q": "x", "n": number} for number in range(40)), {"q": "x"}, {"q": 3, "n": 1}, {"q": " ", "n": 1})
    assert found(listed) == [
        ("a:41", "has no field `n`, which nearly all rows have"),
        ("a:42", "`q` is a number; nearly everywhere else it is text"),
        ("a:43", "`q` is empty"),
    ]


def test_what_is_no_schema_is_refused(tmp_path):
    (tmp_path / "s.json").write_text("[1]")
    with pytest.raises(ConfigError, match="not an object"):
        read_schema(tmp_path / "s.json")
    with pytest.raises(ConfigError, match="no schema `tasks`"):
        found([], "tasks")


def test_statistics():
    stats = describe_rows(rows({"q": "aa", "n": 1}, {"q": "bbbb", "n": 5}, {"q": "aa", "n": 1}, {"q": ""}))
    assert (stats.rows, stats.repeated_rows, stats.files) == (4, 1, {"a": 4})
    question, number = stats.fields
    assert (question.present, question.distinct, question.low, question.high, question.top) == (3, 2, 2, 4, (("aa", 2),))
    assert (number.present, number.types, number.low, number.high) == (3, {"a number": 3}, 1, 5)
