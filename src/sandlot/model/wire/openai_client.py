"""How messages travel: trace messages to OpenAI chat-completion JSON and back.

Outgoing: results of one tool message become one `tool` message each; reasoning goes out as `reasoning_content` where a message
still has it (`spoken` drops it by default); arguments that could not be read go out as a valid object under
`malformed_arguments`, because many servers refuse a history whose arguments are not JSON. Incoming: reasoning comes from its
own field or from a leading `<think>`; everything is checked by type, and a reply that does not fit is
`ModelError(kind="malformed")`, never a guess.
"""

from collections.abc import Sequence
from typing import Annotated, Any, NoReturn

import msgspec
from msgspec import UNSET, UnsetType

from sandlot.core.errors import ModelError
from sandlot.core.ports.model import Reply, Sampling
from sandlot.core.ports.world import ToolSpec
from sandlot.core.trace import Message, Part, Reasoning, Text, ToolCall, ToolResult, Usage
from sandlot.core.types import Json, Role
from sandlot.model.wire.arguments import MAX_NAME, tool_call
from sandlot.model.wire.failure import error_in_reply

_STOPS = {"stop": "stop", "length": "length", "tool_calls": "calls", "function_call": "calls", "content_filter": "refusal"}
"""What an endpoint calls the reason it stopped, and what a node calls it; words not listed count as `stop`."""
_THINK = "<think>"
"""How content begins where a server does not part reasoning from the answer itself."""
_BROKEN_STOPS = {"abort", "error"}
"""The engine gave up in the middle: what it said until then is nobody's answer."""


# -- outgoing ----------------------------------------------------------------------------------------------------------


class OutFunction(msgspec.Struct):
    """A call's name and its arguments as JSON text."""

    name: str
    arguments: str


class OutCall(msgspec.Struct):
    """A call the assistant made earlier."""

    id: str
    function: OutFunction
    type: str = "function"


class OutMessage(msgspec.Struct, kw_only=True):
    """One message of the history."""

    role: str
    content: str | None
    reasoning_content: str | UnsetType = UNSET
    tool_calls: list[OutCall] | UnsetType = UNSET
    tool_call_id: str | UnsetType = UNSET


_encoder = msgspec.json.Encoder()


def request_body(
    model: str,
    messages: Sequence[Message],
    tools: Sequence[ToolSpec],
    sampling: Sampling,
    *,
    max_tokens_field: str = "max_tokens",
    extra: Json | None = None,
) -> bytes:
    """The whole request as JSON; a null in `extra` takes a field out.

    Broken Unicode in a message is replaced, as every endpoint would refuse it.
    """
    body: Json = {
        "model": model,
        "messages": [out for message in messages for out in wire_messages(message)],
        "temperature": sampling.temperature,
        "top_p": sampling.top_p,
    }
    if sampling.max_tokens is not None:
        body[max_tokens_field] = sampling.max_tokens
    if sampling.seed is not None:
        body["seed"] = sampling.seed
    if tools:
        body["tools"] = [{"type": "function", "function": tool} for tool in tools]
    if extra:
        body = {name: value for name, value in (body | extra).items() if value is not None}
    try:
        return _encoder.encode(body)
    except UnicodeEncodeError:
        return _encoder.encode(_without_surrogates(msgspec.to_builtins(body)))


def wire_messages(message: Message) -> list[OutMessage]:
    """One trace message as the messages an endpoint wants."""
    texts: list[str] = []
    thoughts: list[str] = []
    calls: list[OutCall] = []
    results: list[OutMessage] = []
    for part in message.parts:
        match part:
            case Text():
                texts.append(part.text)
            case Reasoning():
                thoughts.append(part.text)
            case ToolCall():
                calls.append(OutCall(part.id, OutFunction(part.name, _arguments_text(part))))
            case ToolResult() if not part.images:
                results.append(OutMessage(role="tool", content=part.text, tool_call_id=part.call))
            case _:
                _refuse(part)
    if message.role is Role.TOOL:
        return results
    content = "".join(texts)
    spoken = OutMessage(role=message.role.value, content=content if content or not calls else None)
    if calls:
        spoken.tool_calls = calls
    if thoughts:
        spoken.reasoning_content = "".join(thoughts)
    return [spoken, *results]


def _arguments_text(call: ToolCall) -> str:
    arguments = call.arguments if call.malformed is None else {"malformed_arguments": call.malformed}
    return _encoder.encode(arguments).decode()


def _refuse(part: Part) -> NoReturn:
    kind = type(part).__name__.removesuffix("Part").lower() if not isinstance(part, ToolResult) else "image in a tool result"
    raise ModelError(f"a chat endpoint cannot be sent a part of kind `{kind}` yet; use text only", kind="bad_request")


def _without_surrogates(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode("utf-8")
    if isinstance(value, dict):
        return {_without_surrogates(name): _without_surrogates(inner) for name, inner in value.items()}  # pyright: ignore[reportUnknownVariableType] - JSON of any shape
    if isinstance(value, list):
        return [_without_surrogates(inner) for inner in value]  # pyright: ignore[reportUnknownVariableType] - as above
    return value


# -- incoming ----------------------------------------------------------------------------------------------------------

Count = Annotated[int, msgspec.Meta(ge=0, le=2**53)] | None


class _InFunction(msgspec.Struct):
    """A call; arguments are JSON text, or with some servers the object itself."""

    name: str
    arguments: msgspec.Raw = msgspec.Raw(b"null")


class _InCall(msgspec.Struct):
    """A tool call in a reply."""

    function: _InFunction
    id: str | None = None


class _InPart(msgspec.Struct):
    """A piece of content, where content is a list."""

    text: str | None = None


class _InMessage(msgspec.Struct):
    """What the model said."""

    content: str | list[_InPart] | None = None
    tool_calls: list[_InCall] | None = None
    refusal: str | None = None
    reasoning_content: str | None = None
    reasoning: Any = None


class _InChoice(msgspec.Struct):
    """One of the completions; we ask for one."""

    message: _InMessage
    finish_reason: str | None = None


class _InDetails(msgspec.Struct):
    """Which prompt tokens were cheaper."""

    cached_tokens: Count = None


class _InUsage(msgspec.Struct):
    """What it cost."""

    prompt_tokens: Count = None
    completion_tokens: Count = None
    prompt_tokens_details: _InDetails | None = None


class _InReply(msgspec.Struct):
    """A whole reply."""

    choices: list[_InChoice] | None = None
    usage: _InUsage | None = None
    error: Any = None


_decoder = msgspec.json.Decoder(_InReply)


def parse_reply(body: bytes) -> Reply:
    """The reply in some bytes; `ModelError` if it is not one."""
    try:
        incoming = _decoder.decode(body)
    except (ValueError, RecursionError) as error:
        raise _malformed(f"{type(error).__name__}: {error}", body) from None
    if incoming.error is not None:
        raise error_in_reply(incoming.error)
    if not incoming.choices:
        raise _malformed("it has no choices", body)
    choice = incoming.choices[0]
    if choice.finish_reason in _BROKEN_STOPS:
        raise ModelError(f"the endpoint broke off with finish_reason `{choice.finish_reason}`", kind="server", retryable=True)
    parts = _parts_of(choice.message)
    return Reply(parts=parts, usage=_usage_of(incoming.usage), stop=_stop_of(choice, parts))


def _malformed(why: str, body: bytes) -> ModelError:
    """A reply that is none, with its beginning."""
    start = body[:200].decode("utf-8", "replace")
    return ModelError(
        f"the endpoint's reply is not a chat completion: {why}; it begins {start!r}. Is the base URL right? Most end in /v1",
        kind="malformed",
    )


def _parts_of(message: _InMessage) -> tuple[Part, ...]:
    parts: list[Part] = []
    thought = message.reasoning_content or (message.reasoning if isinstance(message.reasoning, str) else None)
    content = message.content
    if isinstance(content, list):
        content = "".join(part.text or "" for part in content)
    if not thought and content and content.startswith(_THINK):
        thought, content = _split_thought(content)
    if thought:
        parts.append(Reasoning(thought))
    if content or message.refusal:
        parts.append(Text(content or message.refusal or ""))
    taken: set[str] = set()
    for index, call in enumerate(message.tool_calls or ()):
        call_id = call.id[:MAX_NAME] if call.id else f"call_{index}"
        while call_id in taken:  # some servers number every call 0
            call_id += f".{index}"
        taken.add(call_id)
        parts.append(tool_call(call_id, call.function.name, _arguments_of(call.function.arguments)))
    return tuple(parts)


def _split_thought(content: str) -> tuple[str, str]:
    """Reasoning and answer of a server that leaves both in the content. A thought that never ends is all the model said."""
    thought, closed, answer = content.removeprefix(_THINK).partition("</think>")
    return (thought.strip(), answer.strip()) if closed else ("", content)


def _arguments_of(raw: msgspec.Raw) -> str:
    """Arguments as JSON text, whether they came as text or as the object itself."""
    data = bytes(raw).strip()
    if data == b"null":
        return ""
    if not data.startswith(b'"'):
        return data.decode("utf-8", "replace")
    try:
        return msgspec.json.decode(data, type=str)
    except ValueError:
        return data.decode("utf-8", "replace")


def _usage_of(usage: _InUsage | None) -> Usage:
    if usage is None:
        return Usage()
    details = usage.prompt_tokens_details
    return Usage(
        prompt_tokens=usage.prompt_tokens or 0,
        completion_tokens=usage.completion_tokens or 0,
        cached_tokens=(details.cached_tokens or 0) if details else 0,
    )


def _stop_of(choice: _InChoice, parts: tuple[Part, ...]) -> str:
    stop = _STOPS.get(choice.finish_reason or "stop", "stop")
    if choice.message.refusal:
        return "refusal"
    if stop in {"stop", "calls"}:
        return "calls" if any(isinstance(part, ToolCall) for part in parts) else "stop"
    return stop
