from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sandlot.core.errors import ToolError
from sandlot.core.trace import ToolCall
from sandlot.tools import arguments
from sandlot.tools.arguments import MAX_DEPTH, checked_arguments, clean


def deep(levels: int) -> Any:
    value: Any = "bottom"
    for _ in range(levels):
        value = [value]
    return value


def refusal(arguments: Any) -> str:
    with pytest.raises(ToolError) as caught:
        checked_arguments(ToolCall(id="1", name="query", arguments=arguments))
    return str(caught.value)


def test_unreadable_arguments_are_shown_back():
    with pytest.raises(ToolError, match=r"not a JSON object.*\{\"sql\": oops"):
        checked_arguments(ToolCall(id="1", name="query", malformed='{"sql": oops'))


def test_a_malformed_text_of_any_size_and_bytes_gives_a_short_message():
    with pytest.raises(ToolError) as caught:
        checked_arguments(ToolCall(id="1", name="query", malformed="\ud800" * 10_000_000))
    assert len(str(caught.value).encode()) < 1500


def test_what_is_not_an_object_is_refused():
    assert "are a list" in refusal([1, 2])


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
def test_numbers_that_are_none_are_refused_by_argument(value: float):
    assert refusal({"where": {"amount": [value]}}).startswith("argument `where`: expected a finite number")


def test_numbers_no_record_can_hold_are_refused():
    assert "64 bits" in refusal({"n": 10**400})


def test_depth_is_bounded():
    assert checked_arguments(ToolCall(id="1", name="t", arguments={"x": deep(MAX_DEPTH - 1)})) == {"x": deep(MAX_DEPTH - 1)}
    assert "deeper than 64" in refusal({"x": deep(MAX_DEPTH)})
    assert "deeper than 64" in refusal({"x": deep(100_000)})


@pytest.mark.parametrize("value", ["x" * 2**14, [0] * 2**14, {str(n): n for n in range(5000)}, "é" * 2**13])
def test_size_is_bounded(value: Any, monkeypatch: pytest.MonkeyPatch):
    assert checked_arguments(ToolCall(id="1", name="t", arguments={"x": value}))
    monkeypatch.setattr(arguments, "MAX_BYTES", 2**14)
    assert "larger than 16384 bytes" in refusal({"x": value})


def test_what_json_cannot_say_is_refused():
    assert "got bytes" in refusal({"x": b"raw"})


def test_the_copy_shares_nothing_with_the_call():
    arguments = {"rows": [{"a": 1}]}
    copy = checked_arguments(ToolCall(id="1", name="t", arguments=arguments))
    copy["rows"][0]["a"] = 2
    assert arguments == {"rows": [{"a": 1}]}


@settings(deadline=None)
@given(st.text(st.sampled_from("aé\ud800\udfff\ud83d\ude00\U0001f600\0")))
def test_cleaned_text_can_always_be_written_and_good_text_is_untouched(text: str):
    cleaned = clean(text)
    assert msgspec.json.decode(msgspec.json.encode(cleaned)) == cleaned
    try:
        text.encode()
    except UnicodeEncodeError:
        assert "\ufffd" in cleaned or len(cleaned) < len(text)
    else:
        assert cleaned == text
