"""Plain data of a state: what is stored is read back unchanged, and anything else is refused or changed, quickly or not."""

import math
from contextlib import suppress

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sandlot.core.errors import AuthorError
from sandlot.grade.state import _clean, is_plain, note_plain, plain_data

SINGLE = (
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats()
    | st.text(st.characters(exclude_categories=()), max_size=4)
    | st.sampled_from(["\ud800", 2**63, 2**64, -(2**63), -0.0])
)
KEYS = st.text(max_size=3) | st.integers(0, 2) | st.booleans()
STATES = st.recursive(
    SINGLE, lambda inner: st.lists(inner, max_size=3) | st.tuples(inner) | st.dictionaries(KEYS, inner, max_size=3)
)


@settings(deadline=None, max_examples=40)
@given(STATES)
def test_a_state_that_need_not_be_looked_at_value_by_value_is_what_such_a_look_makes_of_it(state):
    slow = fast = "refused"
    with suppress(AuthorError, TypeError, ValueError, OverflowError):
        slow = repr(_clean(msgspec.to_builtins(state), None, 0))
    with suppress(AuthorError):
        fast = repr(plain_data(state))
    assert fast == slow


def nested(depth: int) -> object:
    return [nested(depth - 1)] if depth else 1


@pytest.mark.parametrize("depth", [5, 8, 9, 50, 99])
def test_depth_alone_is_no_reason_to_refuse(depth):
    assert plain_data(nested(depth)) == nested(depth)


def test_a_state_is_judged_as_it_was_when_it_was_noted():
    state: dict[str, object] = {"a": 1}
    plain = note_plain(state)
    state["a"] = math.nan
    later = note_plain(state)
    state["a"] = 1
    assert plain()
    assert not later()


@pytest.mark.parametrize("state", [{"a": 2**70}, {"a": {1, 2}}, {"a": object()}, {"a": "\ud800"}, None])
def test_what_cannot_be_noted_is_judged_at_once(state):
    assert note_plain(state)() == is_plain(state)
