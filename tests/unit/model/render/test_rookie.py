import pytest
from hypothesis import given
from hypothesis import strategies as st

from builders.model_folders import write_rookie
from sandlot.core.ports.world import ToolSpec
from sandlot.core.trace import Message, Reasoning, Text, ToolCall, ToolResult, text_message
from sandlot.core.types import Role
from sandlot.model.render.open import open_renderer


@pytest.fixture(scope="module")
def renderer(tmp_path_factory):
    return open_renderer(write_rookie(tmp_path_factory.mktemp("rookie")))


TOOL = ToolSpec(
    name="refund",
    description="Pays.",
    parameters={
        "type": "object",
        "properties": {"order": {"type": "string"}, "cents": {"type": "integer"}},
        "required": ["order"],
    },
)
CALL = ToolCall("c_0", "refund", {"order": 'O-7 "x"\n', "cents": 1250, "why": {"a": [1, None]}})


def test_a_conversation_is_spelled_with_one_control_token_for_each_thing_that_means_something(renderer):
    messages = [
        text_message(Role.SYSTEM, "Be kind."),
        text_message(Role.USER, "Pay O-7 back."),
        Message(role=Role.ASSISTANT, parts=(Reasoning("Hm."), Text("I pay."), CALL)),
        Message(role=Role.TOOL, parts=(ToolResult("c_0", "paid"), ToolResult("c_1", "no such order", error=True))),
    ]
    assert renderer.tokenizer.decode(renderer.render(messages, [TOOL])) == (
        "<|tools|>refund(order: string, cents?: integer)<|end|><|system|>Be kind.<|end|><|user|>Pay O-7 back.<|end|>"
        '<|assistant|><|think|>Hm.<|say|>I pay.<|call|>refund<|arg|>order<|text|>O-7 "x"\n<|arg|>cents<|json|>1250'
        '<|arg|>why<|json|>{"a":[1,null]}<|end|><|result|>paid<|end|><|result|><|error|>no such order<|end|><|assistant|>'
    )


def test_a_demonstration_masks_what_the_assistant_says_and_its_end(renderer):
    messages = [text_message(Role.USER, "Pay."), Message(role=Role.ASSISTANT, parts=(CALL,))]
    messages += [Message(role=Role.TOOL, parts=(ToolResult("c_0", "paid"),)), text_message(Role.ASSISTANT, "Done.")]
    shown = renderer.demonstration(messages, [TOOL])
    trained = [token for token, mask in zip(shown.ids, shown.mask, strict=True) if mask]
    assert trained == renderer.turn(messages[1]) + renderer.turn(messages[3])
    assert shown.ids == renderer.render(messages[:3], [TOOL]) + renderer.turn(messages[3])


@pytest.mark.parametrize(
    ("spelled", "name", "text"),
    [
        ("<|call|>refund<|arg|>order", "refund", "order"),
        ("<|call|>refund<|text|>O-7", "refund", "<|text|>O-7"),
        ("<|call|>refund<|arg|>cents<|json|>12 50", "refund", "<|arg|>cents<|json|>12 50"),
        ("<|call|>refund<|arg|>a<|text|>1<|arg|>a<|text|>2", "refund", "<|arg|>a<|text|>1<|arg|>a<|text|>2"),
    ],
)
def test_a_call_that_cannot_be_read_is_kept_as_it_came(renderer, spelled, name, text):
    ids = renderer.tokenizer.encode_template(spelled)
    (call,) = renderer.parse(ids).calls
    assert (call.name, call.malformed) == (name, text)


words = st.text(max_size=20).filter(lambda text: text.isprintable() or "\n" in text)
values = st.one_of(
    words, st.integers(-(2**63), 2**63 - 1), st.booleans(), st.none(), st.lists(st.floats(allow_nan=False, allow_infinity=False))
)
calls = st.builds(lambda name, arguments: ToolCall("", name, arguments), words, st.dictionaries(words, values, max_size=3))
broken = st.builds(lambda name, text: ToolCall("", name, malformed=text), words, words)
parts = st.lists(st.one_of(words.filter(bool).map(Text), words.map(Reasoning), calls, broken), max_size=5)


@given(parts)
def test_whatever_is_spelled_is_read_back_exactly(renderer, parts):
    spoken = Message(role=Role.ASSISTANT, parts=tuple(parts))
    read = renderer.parse(renderer.turn(spoken), "c")
    numbered = iter(range(len(parts)))
    expected = [
        ToolCall(f"c_{next(numbered)}", part.name, part.arguments, part.malformed) if isinstance(part, ToolCall) else part
        for part in parts
    ]
    assert list(read.parts) == expected
