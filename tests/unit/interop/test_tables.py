"""What is read from a table is what was written, whichever the format."""

import json

import pyarrow.parquet as pq
from hypothesis import given
from hypothesis import strategies as st

from sandlot.interop.tables import BATCH, write_rows

plain = st.fixed_dictionaries({"role": st.sampled_from(["user", "assistant"]), "content": st.text()})
json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=4), lambda inner: st.lists(inner, max_size=2)
)
odd = st.fixed_dictionaries({"role": st.just("assistant"), "content": st.text()}, optional={"tool_calls": json_values})
rows = st.lists(
    st.fixed_dictionaries({"messages": st.lists(plain | odd, max_size=3), "task": st.text(), "reward": st.floats(0, 1)}),
    min_size=1,
    max_size=4,
)


def read_parquet(file):
    """The rows again, with JSON values as what they say."""
    table = pq.read_table(file)
    as_json = [field.name for field in table.schema if str(field.type).endswith("arrow.json>>")]
    return [{**row, **{name: [json.loads(each) for each in row[name]] for name in as_json}} for row in table.to_pylist()]


@given(rows)
def test_both_formats_give_back_the_rows_that_were_written(tmp_path_factory, written):
    place = tmp_path_factory.mktemp("tables")
    assert write_rows(place / "a.jsonl", iter(written)) == write_rows(place / "a.parquet", iter(written)) == len(written)
    assert [json.loads(line) for line in (place / "a.jsonl").read_text().split("\n")[:-1]] == written
    assert read_parquet(place / "a.parquet") == written
    assert sorted(path.name for path in place.iterdir()) == ["a.jsonl", "a.parquet"]


def test_messages_of_role_and_content_are_a_struct_that_everything_reads(tmp_path):
    write_rows(tmp_path / "a.parquet", iter([{"messages": [{"role": "user", "content": "hi"}]}]))
    assert str(pq.read_schema(tmp_path / "a.parquet").field("messages").type).startswith("list<element: struct<role: string")


def test_no_row_is_lost_between_batches(tmp_path):
    number = 2 * BATCH + 1
    write_rows(tmp_path / "a.parquet", ({"ids": [place, place + 1], "task": str(place)} for place in range(number)))
    assert [row["task"] for row in read_parquet(tmp_path / "a.parquet")] == [str(place) for place in range(number)]
    assert write_rows(tmp_path / "none.parquet", iter(())) == 0
    assert pq.read_table(tmp_path / "none.parquet").num_rows == 0
