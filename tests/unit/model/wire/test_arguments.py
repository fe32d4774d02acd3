import json

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from sandlot.model.wire.arguments import MAX_CHARS, MAX_DEPTH, is_storable, tool_call

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


def nested(depth: int) -> object:
    value: object = 1
    for _ in range(depth):
        value = [value]
    return value


@given(st.dictionaries(st.text(), JSON, max_size=4))
def test_an_object_is_read_as_json_reads_it_or_kept_as_text(arguments):
    text = json.dumps(arguments)
    call = tool_call("1", "f", text)
    if call.malformed is None:
        assert call.arguments == arguments
        assert msgspec.msgpack.decode(msgspec.msgpack.encode(call))
    else:
        assert not is_storable(arguments)


@given(st.text())
def test_any_text_makes_a_call_that_can_be_stored(text):
    call = tool_call("1", "f", text)
    assert msgspec.msgpack.encode(call)
    assert (call.malformed is None) == (not text.strip() or _is_object(text))


def _is_object(text: str) -> bool:
    try:
        return isinstance(json.loads(text), dict)
    except ValueError:
        return False


@given(st.text(alphabet=st.characters(codec=None, categories=["Cs", "L"])))
def test_broken_unicode_can_still_be_stored(text):
    assert msgspec.msgpack.encode(tool_call("1", text, "{" + text))


def test_depth_is_counted_exactly():
    assert is_storable(nested(MAX_DEPTH))
    assert not is_storable(nested(MAX_DEPTH + 1))


def test_size_is_capped():
    text = json.dumps({"a": "x" * MAX_CHARS})
    malformed = tool_call("1", "f", text).malformed
    assert malformed is not None
    assert "characters cut" in malformed
