"""Whether a renderer belongs to a model, asked before the first rollout.

Every probe compares two lists of ids that must be equal, or looks for ids that must not be there. A pairing that fails one is
refused, with the probe's name and both lists around the first difference, decoded: a rollout with a wrong separator in it would
train the model on text it never saw, and no reward would tell.
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
"""Tokens shown on each side of a difference."""

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
    """One conversation, and what a template must know to have an opinion on it."""

    what: str
    messages: tuple[Message, ...]
    tools: tuple[ToolSpec, ...] = ()


def require_sound(renderer: TokenRenderer, template: ChatTemplate | None, told: Sequence[int], where: str) -> None:
    """Run every probe; the first that fails refuses the pairing."""
    for fault in _faults(renderer, template, told):
        raise ConfigError(f"`{where}` and renderer `{renderer.family.name}` do not belong together: {fault}")


def _faults(renderer: TokenRenderer, template: ChatTemplate | None, told: Sequence[int]) -> Iterator[str]:
    """What is wrong, probe by probe; nothing if the two belong together."""
    yield from _stop_faults(renderer, told)
    yield from _text_faults(renderer)
    for probe in probes():
        yield from _stability_faults(renderer, probe)
        yield from _bridge_faults(renderer, probe)
        if template is not None:
            yield from _template_faults(renderer, template, probe)
    yield from _parse_faults(renderer)


def _stop_faults(renderer: TokenRenderer, told: Sequence[int]) -> Iterator[str]:
    end = renderer.tokenizer.control[renderer.family.end.text]
    if told and end not in told:
        shown = ", ".join(f"{token} `{renderer.tokenizer.decode([token])}`" for token in told)
        yield f"probe `stop tokens`: a turn ends with {end} `{renderer.family.end.text}`, generation_config.json stops at {shown}"
    for token in told:
        if token not in renderer.tokenizer:
            yield f"probe `stop tokens`: generation_config.json stops at {token}, which is no token of tokenizer.json"


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
    """A longer conversation begins with the shorter one: for our spelling of every step from role to role."""
    opening = len(renderer.tokenizer.encode(renderer.family.openings[Role.ASSISTANT]))
    before: list[int] = []
    first = next(at for at, message in enumerate(probe.messages) if message.role is Role.USER)  # no prompt ends before a question
    for end in range(first + 1, len(probe.messages) + 1):
        ids = renderer.render(probe.messages[:end], probe.tools)
        if ids[: len(before)] != before and not _joins(renderer, probe.messages, end):
            yield f"probe `prefix stability`, {probe.what}, message {end}: {_difference(renderer, before, ids)}"
        before = ids[: len(ids) - opening]


def _joins(renderer: TokenRenderer, messages: Sequence[Message], end: int) -> bool:
    """Two results that share a turn: the first one's end moves behind the second."""
    return renderer.family.joined_results and end > 1 and {message.role for message in messages[end - 2 : end]} == {Role.TOOL}


def _bridge_faults(renderer: TokenRenderer, probe: RenderProbe) -> Iterator[str]:
    """What a rollout appends turn by turn is what rendering the whole would have given."""
    for at, message in enumerate(probe.messages):
        if message.role is Role.ASSISTANT:
            held = [*renderer.render(probe.messages[:at], probe.tools), *renderer.turn(message)]
            appended = renderer.bridge(held, probe.messages[at + 1 :])
            whole = renderer.render(probe.messages, probe.tools)
            bridged = held + (appended or [])
            if bridged != whole:
                yield f"probe `bridge`, {probe.what}, after message {at + 1}: {_difference(renderer, bridged, whole)}"


def _template_faults(renderer: TokenRenderer, template: ChatTemplate, probe: RenderProbe) -> Iterator[str]:
    """The folder's own template spells it the same, where it has an opinion."""
    with_calls = bool(probe.tools) or any(message.role is Role.TOOL for message in probe.messages)
    if with_calls and not template.tells_tools:
        return
    text = template.render(probe.messages, probe.tools)
    if text is None or not all(words in text for words in _words(probe)):
        return  # it refuses such a conversation, or drops some of what was said
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


# -- what is tried -----------------------------------------------------------------------------------------------------

_TOOL = ToolSpec(
    name="look_up",
    description="Find a word.",
    parameters={"type": "object", "properties": {"word": {"type": "string"}, "times": {"type": "integer"}}, "required": ["word"]},
)


def probes() -> tuple[RenderProbe, ...]:
    """Every step from role to role that a rollout takes."""
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
        RenderProbe("tools told", (user,), tools),
        RenderProbe("tools told after a system prompt", (system, user), tools),
        RenderProbe("a call and its result", (system, user, one, result), tools),
        RenderProbe("a bare call, its result, an answer, a question", (system, user, bare, result, answer, more), tools),
        RenderProbe("two calls, two results", (user, two, result, second), tools),
        RenderProbe("a thought, a call, its result", (user, thought, result), tools),
        RenderProbe("two questions", (user, more)),
    )
