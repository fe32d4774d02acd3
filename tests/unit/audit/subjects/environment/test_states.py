"""States that travel in parts: what is read is what was written, and what states share is sent and kept once."""

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sandlot.audit.subjects.environment.states import Fields, Items, StateReader, StateWriter, Whole

LEAVES = st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats(allow_nan=False) | st.text(max_size=1200)
STATES = st.recursive(LEAVES, lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.text(), inner, max_size=5))


def table(**changed: int) -> dict[str, dict[str, object]]:
    """A state of some 20 kB."""
    return {f"row-{at}": {"text": "x" * 60, "count": changed.get(f"row_{at}", at), "notes": []} for at in range(200)}


def read_all(*states: object) -> list[object]:
    writer, reader = StateWriter(), StateReader()
    numbers = [writer.number_of(state) for state in states]
    reader.add(msgspec.msgpack.decode(msgspec.msgpack.encode(writer.take_new()), type=tuple[Whole | Fields | Items, ...]))
    return [reader.state(number) for number in numbers]


@settings(max_examples=60, deadline=None)
@given(st.lists(STATES, max_size=3))
def test_what_is_read_is_what_was_written(states: list[object]):
    assert msgspec.json.encode(read_all(*states)) == msgspec.json.encode(states)


def test_the_order_of_keys_and_the_types_of_numbers_are_kept():
    long = "x" * 2000
    states = [{"a": 1, "b": long}, {"b": long, "a": 1}, {"a": True, "b": long}, {"a": 1.0, "b": long}]
    assert [repr(state) for state in read_all(*states)] == [repr(state) for state in states]


def test_of_a_state_with_one_row_changed_little_is_sent():
    writer = StateWriter()
    writer.number_of(table())
    whole = len(msgspec.msgpack.encode(writer.take_new()))
    writer.number_of(table(row_7=-1))
    assert len(msgspec.msgpack.encode(writer.take_new())) < whole / 5


def test_equal_rows_of_different_states_are_one_object():
    one, other = read_all(table(), table(row_7=-1))
    assert isinstance(one, dict)
    assert isinstance(other, dict)
    assert one["row-3"] is other["row-3"]
    assert other["row-7"]["count"] == -1


def test_a_state_that_lasts_is_looked_at_once_and_others_each_time():
    writer = StateWriter()
    state = {"a": [1]}
    first = writer.number_of(state)
    state["a"] = [2]
    second = writer.number_of(state, lasting=True)
    assert second != first
    assert writer.number_of(state) == second


def test_a_worker_that_lies_about_parts_is_refused():
    with pytest.raises(ValueError, match="part 5 of 1"):
        StateReader().add((Whole(1), Items((5,))))
