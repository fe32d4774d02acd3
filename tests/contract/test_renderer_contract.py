"""What every `ports.Renderer` promises. New ones join by adding how their model folder is made to `model_folders.FAMILIES`."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from builders.model_folders import FAMILIES
from contract.conversations import TOOL, conversations, neutral, plain, results, turns, users
from sandlot.core.errors import ModelError
from sandlot.core.trace import ImagePart, Message, Text, ToolCall, ToolResult, text_message
from sandlot.core.types import Role
from sandlot.model.render.open import open_renderer


@pytest.fixture(scope="module", params=FAMILIES)
def renderer(request, tmp_path_factory):
    return open_renderer(FAMILIES[request.param](tmp_path_factory.mktemp(request.param)))


def control(renderer, ids):
    """The control tokens among ids, in order: the skeleton of a conversation."""
    return [token for token in ids if token in set(renderer.tokenizer.control.values())]


@given(messages=conversations)
def test_no_control_token_comes_from_content(renderer, messages):
    harmless = [neutral(message) for message in messages]
    assert control(renderer, renderer.render(messages, [TOOL])) == control(renderer, renderer.render(harmless, [TOOL]))


@given(messages=conversations, said_next=turns(), answers=st.lists(st.one_of(users, results), max_size=3))
def test_what_a_rollout_appends_is_what_rendering_the_whole_gives(renderer, messages, said_next, answers):
    held = renderer.render(messages, [TOOL]) + renderer.turn(said_next)
    assert held + renderer.bridge(held, answers) == renderer.render([*messages, said_next, *answers], [TOOL])


@given(messages=conversations)
def test_a_prompt_is_made_the_same_way_twice(renderer, messages):
    assert renderer.render(messages, []) == renderer.render(list(messages), [])


@given(message=turns(plain, st.builds(lambda text: ToolCall("c", "look_up", {"word": text, "times": 3}), plain)))
def test_what_is_said_is_read_back(renderer, message):
    read = renderer.parse(renderer.turn(message), "c")
    assert read.role is Role.ASSISTANT
    assert read.text.strip() == message.text.strip()
    assert [(call.id, call.name, call.arguments) for call in read.calls] == [
        (f"c_{number}", call.name, call.arguments) for number, call in enumerate(message.calls)
    ]


@given(ids=st.lists(st.integers(0, 450), max_size=40))
def test_any_ids_can_be_read(renderer, ids):
    message = renderer.parse(ids, "c")
    assert message.role is Role.ASSISTANT
    assert len({call.id for call in message.calls}) == len(message.calls)
    renderer.render([text_message(Role.USER, "?"), message], [TOOL])


@given(ids=st.lists(st.integers(0, 399), max_size=10))
def test_a_turn_that_was_cut_off_is_closed_by_the_bridge(renderer, ids):
    held = renderer.render([text_message(Role.USER, "?")], []) + ids
    appended = renderer.bridge(held, [text_message(Role.USER, "Go on.")])
    assert appended[0] in renderer.stop_ids
    assert renderer.bridge([*held, appended[0]], [text_message(Role.USER, "Go on.")]) == appended[1:]


def test_a_turn_ends_with_a_stop_token(renderer):
    assert renderer.turn(text_message(Role.ASSISTANT, "Yes."))[-1] in renderer.stop_ids


def test_a_bridge_never_renders_history(renderer):
    assert renderer.bridge([], [text_message(Role.USER, "?")]) is None
    assert renderer.bridge([5], [text_message(Role.SYSTEM, "From now on...")]) is None


def test_a_malformed_call_is_read_as_one_again(renderer):
    first = renderer.parse(
        renderer.turn(Message(role=Role.ASSISTANT, parts=(ToolCall("c_0", "x", malformed='{"name": "x", oops'),))), "c"
    )
    again = renderer.parse(renderer.turn(first), "c")
    assert first.calls[0].malformed is not None
    assert [call.malformed for call in again.calls] == [call.malformed for call in first.calls]


@pytest.mark.parametrize(
    "part", [ImagePart("0" * 64), ToolResult("c_0", "", images=(ImagePart("0" * 64),))], ids=["image", "a result with an image"]
)
def test_a_picture_is_refused_and_not_left_out(renderer, part):
    role = Role.TOOL if isinstance(part, ToolResult) else Role.USER
    with pytest.raises(ModelError, match="image"):
        renderer.render([Message(role=role, parts=(Text("see"), part))], [])


def test_the_name_tells_family_and_tokenizer(renderer):
    family, _, fingerprint = renderer.name.rpartition("-")
    assert family == renderer.family.name
    assert len(fingerprint) == 12
