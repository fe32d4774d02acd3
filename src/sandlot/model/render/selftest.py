"""Tests whether a renderer matches a model, before the first rollout.

Each probe compares two lists of ids that must be equal, or looks for ids that must not occur. The first failure refuses the pair
and shows both lists around the first difference. A wrong separator would otherwise train the model on text it never saw, and no
reward would reveal it.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from sandlot.core.errors import ConfigError
from sandlot.core.ports.world import ToolSpec
from sandlot.core.trace import Message, Reasoning, Text, ToolCall, ToolResult, text_message
from sandlot.core.types import Role
from sandlot.model.render.renderer import TokenRenderer
from sandlot.model.render.template import ChatTemplate

_SHOWN = 6
"""Tokens shown before and after a difference."""

_TEXTS = (
    "Hello, world!",
    " two  spaces ",
    "line\n\nbreaks\n",
    "naïve café 東京 🙂",
    "def f(x):\n\treturn {'a': [1, 2.5]}",
    "1234567890",
    "",
)


@dataclass(frozen=True, slots=True)
class RenderProbe:
    """A test conversation."""

    what: str
    messages: tuple[Message, ...]
    tools: tuple[ToolSpec, ...] = ()


def require_compatible(renderer: TokenRenderer, template: ChatTemplate | None, stops: Sequence[int], where: str) -> None:
    """Run every probe; `ConfigError` for the first that fails."""
    for fault in _faults(renderer, template, stops):
        raise ConfigError(f"renderer `{renderer.family.name}` does not match the model in `{where}`: {fault}")


def _faults(renderer: TokenRenderer, template: ChatTemplate | None, stops: Sequence[int]) -> Iterator[str]:
    """The failures of all probes."""
    yield from _stop_faults(renderer, stops)
    yield from _text_faults(renderer)
    for probe in probes():
        yield from _stability_faults(renderer, probe)
        yield from _bridge_faults(renderer, probe)
        if template is not None:
            yield from _template_faults(renderer, template, probe)
    yield from _parse_faults(renderer)


def _stop_faults(renderer: TokenRenderer, stops: Sequence[int]) -> Iterator[str]:
    end = renderer.tokenizer.control[renderer.family.end.text]
    if stops and end not in stops:
        shown = ", ".join(f"{token} `{renderer.tokenizer.decode([token])}`" for token in stops)
        yield f"probe `stop tokens`: a turn ends with {end} `{renderer.family.end.text}`, generation_config.json stops at {shown}"
    for token in stops:
        if token not in renderer.tokenizer:
            yield f"probe `stop tokens`: generation_config.json stops at {token}, which is not in tokenizer.json"


def _text_faults(renderer: TokenRenderer) -> Iterator[str]:
    tokenizer = renderer.tokenizer
    control = set(tokenizer.control.values())
    for text in (*_TEXTS, *tokenizer.control, " ".join(tokenizer.control)):
        ids = tokenizer.encode_text(text)
        if control.intersection(ids):
            yield f"probe `content`: the text {text!r:.80} encodes to a control token"
        again = tokenizer.encode_text(tokenizer.decode(ids))
        if again != ids:
            yield f"probe `decode and encode` of {text!r:.80}: {_difference(renderer, ids, again)}"


def _stability_faults(renderer: TokenRenderer, probe: RenderProbe) -> Iterator[str]:
    """Rendering more messages must extend the ids of fewer messages."""
    opening = len(renderer.tokenizer.encode(renderer.family.openings[Role.ASSISTANT]))
    before: list[int] = []
    first = next(at for at, message in enumerate(probe.messages) if message.role is Role.USER)  # a prompt has a user message
    for end in range(first + 1, len(probe.messages) + 1):
        ids = renderer.render(probe.messages[:end], probe.tools)
        if ids[: len(before)] != before and not _share_turn(renderer, probe.messages, end):
            yield f"probe `prefix stability`, {probe.what}, message {end}: {_difference(renderer, before, ids)}"
        before = ids[: len(ids) - opening]


def _share_turn(renderer: TokenRenderer, messages: Sequence[Message], end: int) -> bool:
    """True if two results share a turn: the end of the turn then moves behind the second."""
    return renderer.family.joined_results and end > 1 and {message.role for message in messages[end - 2 : end]} == {Role.TOOL}


def _bridge_faults(renderer: TokenRenderer, probe: RenderProbe) -> Iterator[str]:
    """Appending turn by turn must give the same ids as rendering the whole."""
    for at, message in enumerate(probe.messages):
        if message.role is Role.ASSISTANT:
            held = [*renderer.render(probe.messages[:at], probe.tools), *renderer.turn(message)]
            appended = renderer.bridge(held, probe.messages[at + 1 :])
            whole = renderer.render(probe.messages, probe.tools)
            bridged = held + (appended or [])
            if bridged != whole:
                yield f"probe `bridge`, {probe.what}, after message {at + 1}: {_difference(renderer, bridged, whole)}"


def _template_faults(renderer: TokenRenderer, template: ChatTemplate, probe: RenderProbe) -> Iterator[str]:
    """The folder's chat template must give the same ids, if it supports the conversation."""
    with_calls = bool(probe.tools) or any(message.role is Role.TOOL for message in probe.messages)
    if with_calls and not template.has_tools:
        return
    text = template.render(probe.messages, probe.tools)
    if text is None or not all(words in text for words in _words(probe)):
        return  # it refuses the conversation, or drops parts of it
    expected, ids = renderer.tokenizer.encode_template(text), renderer.render(probe.messages, probe.tools)
    if ids != expected:
        yield f"probe `chat template`, {probe.what}: {_difference(renderer, ids, expected, 'renderer', 'template')}"


def _words(probe: RenderProbe) -> list[str]:
    parts = [part for message in probe.messages for part in message.parts]
    return [part.text for part in parts if isinstance(part, Text | Reasoning)]


def _parse_faults(renderer: TokenRenderer) -> Iterator[str]:
    for probe in probes():
        for message in probe.messages:
            if message.role is Role.ASSISTANT:
                read = renderer.parse(renderer.turn(message), "c")
                if (read.text, [(call.name, call.arguments) for call in read.calls]) != (
                    message.text,
                    [(call.name, call.arguments) for call in message.calls],
                ):
                    yield f"probe `parse`, {probe.what}: said {message.parts}, read {read.parts}"


def _difference(
    renderer: TokenRenderer, one: Sequence[int], other: Sequence[int], left: str = "one", right: str = "other"
) -> str:
    at = next((i for i, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))
    window = slice(max(0, at - _SHOWN), at + _SHOWN)
    shown = [
        f"{name} {list(ids[window])} {renderer.tokenizer.decode(ids[window])!r}" for name, ids in ((left, one), (right, other))
    ]
    return f"differ at token {at} of {len(one)} and {len(other)}: {'; '.join(shown)}"


# -- the conversations -----------------------------------------------------------------------------------------------------

_TOOL = ToolSpec(
    name="look_up",
    description="Find a word.",
    parameters={"type": "object", "properties": {"word": {"type": "string"}, "times": {"type": "integer"}}, "required": ["word"]},
)


def probes() -> tuple[RenderProbe, ...]:
    """Conversations with every change of role that occurs in a rollout."""
    system, user = text_message(Role.SYSTEM, "Be brief."), text_message(Role.USER, "What is a sandlot?")
    answer, more = text_message(Role.ASSISTANT, "A field."), text_message(Role.USER, "Where?")
    one = Message(role=Role.ASSISTANT, parts=(Text("I look."), ToolCall("c_0", "look_up", {"word": "sandlot"})))
    bare = Message(role=Role.ASSISTANT, parts=(ToolCall("c_0", "look_up", {"word": 'a "b"\nc', "times": 2}),))
    two = Message(
        role=Role.ASSISTANT,
        parts=(ToolCall("c_0", "look_up", {"word": "x"}), ToolCall("c_1", "look_up", {"word": "y", "times": 1})),
    )
    result = Message(role=Role.TOOL, parts=(ToolResult("c_0", "An empty lot."),))
    second = Message(role=Role.TOOL, parts=(ToolResult("c_1", '{"a": 1}'),))
    thought = Message(role=Role.ASSISTANT, parts=(Reasoning("Hm."), *bare.parts))
    tools = (_TOOL,)
    return (
        RenderProbe("user", (user,)),
        RenderProbe("system, user", (system, user)),
        RenderProbe("user, assistant, user", (user, answer, more)),
        RenderProbe("system, user, assistant, user, assistant, user", (system, user, answer, more, answer, more)),
        RenderProbe("tools", (user,), tools),
        RenderProbe("tools after a system prompt", (system, user), tools),
        RenderProbe("a call and its result", (system, user, one, result), tools),
        RenderProbe("a bare call, its result, an answer, a question", (system, user, bare, result, answer, more), tools),
        RenderProbe("two calls, two results", (user, two, result, second), tools),
        RenderProbe("a thought, a call, its result", (user, thought, result), tools),
        RenderProbe("two questions", (user, more)),
    )
