"""The client's side of OpenAI chat completions: trace messages to a request, a reply to parts.

Outgoing: each result of a tool message becomes one `tool` message. Reasoning is sent as `reasoning_content` if the message has
any (`policy/chat.py` drops it by default). Malformed arguments are sent as an object under `malformed_arguments`, because many
servers reject a history whose arguments are not JSON. Incoming: reasoning is read from its own field or from a leading `<think>`.
Types are checked; a reply that does not match is `ModelError(kind="malformed")`.
"""

from collections.abc import Iterator, Mapping, Sequence

import msgspec

from sandlot.core.errors import ModelError
from sandlot.core.ports.model import Reply, Sampling
from sandlot.core.ports.world import ToolSpec
from sandlot.core.trace import Message, Part, Reasoning, Tensor, Text, ToolCall, ToolResult, Usage
from sandlot.core.types import Json, Role
from sandlot.model.wire.arguments import MAX_NAME, tool_call
from sandlot.model.wire.call_names import with_legal_names
from sandlot.model.wire.failure import error_in_reply
from sandlot.model.wire.openai import (
    ChatMessage,
    ChatPart,
    ChatReply,
    ReplyChoice,
    ReplyMessage,
    ReplyUsage,
    chat_message,
    image_part,
)
from sandlot.model.wire.surrogates import decode_reply, without_surrogates

_STOPS = {"stop": "stop", "length": "length", "tool_calls": "calls", "function_call": "calls", "content_filter": "refusal"}
"""An endpoint's finish reason to a node's stop reason; unknown ones count as `stop`."""
_THINK = "<think>"
"""How content begins if the server leaves reasoning in it."""
_BROKEN_STOPS = {"abort", "error"}
"""Finish reasons of an engine that stopped in the middle; its partial output is not used."""


# -- outgoing ----------------------------------------------------------------------------------------------------------

_encoder = msgspec.json.Encoder()


def request_body(
    model: str,
    messages: Sequence[Message],
    tools: Sequence[ToolSpec],
    sampling: Sampling,
    *,
    max_tokens_field: str = "max_tokens",
    extra: Json | None = None,
    images: Mapping[str, bytes] | None = None,
) -> bytes:
    """The request body as JSON. A null in `extra` removes a field. Invalid Unicode is replaced, since endpoints refuse it.

    `images` holds the bytes of the messages' images, by hash; None for a model that takes text only.
    """
    body: Json = {
        "model": model,
        "messages": [out for message in with_legal_names(messages, tools) for out in wire_messages(message, images)],
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
        return _encoder.encode(without_surrogates(msgspec.to_builtins(body)))


_WORDS = (Text, ToolCall, Reasoning)
"""Parts that every model takes."""


def wire_messages(message: Message, images: Mapping[str, bytes] | None = None) -> list[ChatMessage]:
    """One trace message as OpenAI messages: each tool result is a message of its own.

    A tool message holds text only, so the images of results follow in a user message that names their calls.
    """
    results: list[ToolResult] = []
    for part in message.parts:
        if isinstance(part, ToolResult):
            results.append(part)
            if part.images:
                _require_image(part, images)
        elif not isinstance(part, _WORDS):
            _require_image(part, images)
    if not results and message.role is not Role.TOOL:
        return [chat_message(message, _arguments_text, images or {})]
    out = [ChatMessage(role="tool", content=result.text, tool_call_id=result.call) for result in results]
    shown = [part for result in results if result.images for part in result_images(result, images or {})]
    if shown:
        out.append(ChatMessage(role="user", content=shown))
    return out if message.role is Role.TOOL else [chat_message(message, _arguments_text, images or {}), *out]


def result_images(result: ToolResult, images: Mapping[str, bytes]) -> Iterator[ChatPart]:
    """The images of a tool result for a user message after it, with a line that names its call."""
    if result.images:
        count = f"{len(result.images)} images" if len(result.images) > 1 else "image"
        yield ChatPart("text", f"The {count} of the tool result of call {result.call}:")
    for image in result.images:
        yield image_part(image, images)


def _arguments_text(call: ToolCall) -> str:
    arguments = call.arguments if call.malformed is None else {"malformed_arguments": call.malformed}
    return _encoder.encode(arguments).decode()


def _require_image(part: Part, images: Mapping[str, bytes] | None) -> None:
    """Refuse a part that is not text, unless it is an image and the model sees images."""
    if images is not None and not isinstance(part, Tensor):
        return
    kind = type(part).__name__.removesuffix("Part").lower() if not isinstance(part, ToolResult) else "image in a tool result"
    raise ModelError(
        f"parts of kind `{kind}` cannot be sent to this model, which takes text only; if it sees images, name it "
        "`openai+images:NAME@URL`",
        kind="bad_request",
    )


# -- incoming ----------------------------------------------------------------------------------------------------------

_decoder = msgspec.json.Decoder(ChatReply)


def parse_reply(body: bytes) -> Reply:
    """Parse a reply body; `ModelError` if it is not a chat completion."""
    try:
        incoming = decode_reply(_decoder, body)
    except (ValueError, RecursionError) as error:
        raise _malformed(f"{type(error).__name__}: {error}", body) from None
    if incoming.error is not None:
        raise error_in_reply(incoming.error)
    if not incoming.choices:
        raise _malformed("it has no `choices`", body)
    choice = incoming.choices[0]
    if choice.finish_reason in _BROKEN_STOPS:
        raise ModelError(f"the endpoint stopped early with finish_reason `{choice.finish_reason}`", kind="server", retryable=True)
    parts = _parts_of(choice.message)
    return Reply(parts=parts, usage=_usage_of(incoming.usage), stop=_stop_of(choice, parts))


def _malformed(why: str, body: bytes) -> ModelError:
    """The error for a body that is not a chat completion; it quotes the beginning."""
    start = body[:200].decode("utf-8", "replace")
    return ModelError(
        f"the endpoint's reply is not a chat completion: {why}; it begins {start!r}. Is the base URL right? Most end in /v1",
        kind="malformed",
    )


def _parts_of(message: ReplyMessage) -> tuple[Part, ...]:
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
        while call_id in taken:  # some servers give every call the same id
            call_id += f".{index}"
        taken.add(call_id)
        parts.append(tool_call(call_id, call.function.name, _arguments_of(call.function.arguments)))
    return tuple(parts)


def _split_thought(content: str) -> tuple[str, str]:
    """Split reasoning from the answer. Without a closing tag everything stays content."""
    thought, closed, answer = content.removeprefix(_THINK).partition("</think>")
    return (thought.strip(), answer.strip()) if closed else ("", content)


def _arguments_of(raw: msgspec.Raw) -> str:
    """Arguments as JSON text, whether the server sent text or an object."""
    data = bytes(raw).strip()
    if data == b"null":
        return ""
    if not data.startswith(b'"'):
        return data.decode("utf-8", "replace")
    try:
        return msgspec.json.decode(data, type=str)
    except ValueError:
        return data.decode("utf-8", "replace")


def _usage_of(usage: ReplyUsage | None) -> Usage:
    if usage is None:
        return Usage()
    return Usage(
        prompt_tokens=usage.prompt_tokens or 0,
        completion_tokens=usage.completion_tokens or 0,
        cached_tokens=usage.cached_tokens,
    )


def _stop_of(choice: ReplyChoice, parts: tuple[Part, ...]) -> str:
    stop = _STOPS.get(choice.finish_reason or "stop", "stop")
    if choice.message.refusal:
        return "refusal"
    if stop in {"stop", "calls"}:
        return "calls" if any(isinstance(part, ToolCall) for part in parts) else "stop"
    return stop
