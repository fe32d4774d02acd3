"""The client's side of Anthropic messages: trace messages to a request, a reply to parts.

Outgoing: system messages become the `system` field; tool results are blocks of a user message, with their images inside; a user's
text after them joins that message, since roles must alternate. Reasoning is not sent again: a server accepts only what it signed,
and the trace keeps no signatures. Incoming: thinking becomes reasoning.
"""

import base64
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from sandlot.core.errors import ModelError
from sandlot.core.ports.model import Reply, Sampling
from sandlot.core.ports.world import ToolSpec
from sandlot.core.trace import ImagePart, Message, Part, Reasoning, Tensor, Text, ToolCall, ToolResult, Usage
from sandlot.core.types import Json, Role
from sandlot.model.wire.arguments import MAX_NAME, tool_call
from sandlot.model.wire.call_names import with_legal_names
from sandlot.model.wire.failure import error_in_reply
from sandlot.model.wire.openai import Count
from sandlot.model.wire.surrogates import decode_reply, without_surrogates

_MAX_TOKENS = 4096
"""The API needs a maximum; this is asked for if the run names none."""
_STOPS = {"end_turn": "stop", "stop_sequence": "stop", "max_tokens": "length", "tool_use": "calls", "refusal": "refusal"}
_NO_TEXT = "(no text)"
"""What stands for a message without content, which the API refuses."""


def messages_request(
    model: str, messages: Sequence[Message], tools: Sequence[ToolSpec], sampling: Sampling, images: Mapping[str, bytes] | None
) -> bytes:
    """The request body as JSON. Invalid Unicode is replaced. `images`: the bytes of the images; None for a model of text only."""
    body: Json = {
        "model": model,
        "max_tokens": sampling.max_tokens or _MAX_TOKENS,
        "messages": _turns(with_legal_names(messages, tools), images),
        "temperature": min(sampling.temperature, 1.0),
    }
    system = "\n\n".join(message.text for message in messages if message.role is Role.SYSTEM)
    body |= {"system": system} if system else {}
    body |= {"top_p": sampling.top_p} if sampling.top_p < 1 else {}
    body |= {"top_k": sampling.top_k} if sampling.top_k else {}
    body |= {"stop_sequences": list(sampling.stop)} if sampling.stop else {}
    if tools:
        body["tools"] = [{"name": tool.name, "description": tool.description, "input_schema": tool.parameters} for tool in tools]
    try:
        return msgspec.json.encode(body)
    except UnicodeEncodeError:
        return msgspec.json.encode(without_surrogates(body))


def _turns(messages: Sequence[Message], images: Mapping[str, bytes] | None) -> list[Json]:
    """The messages with alternating roles: neighbours of the same side are one."""
    turns: list[Json] = []
    for message in messages:
        if message.role is Role.SYSTEM:
            continue
        role = "assistant" if message.role is Role.ASSISTANT else "user"
        blocks = list(_blocks(message, images))
        if turns and turns[-1]["role"] == role:
            turns[-1]["content"] += blocks
        else:
            turns.append({"role": role, "content": blocks})
    for turn in turns:
        turn["content"] = turn["content"] or [{"type": "text", "text": _NO_TEXT}]
    return turns


def _blocks(message: Message, images: Mapping[str, bytes] | None) -> Iterator[Json]:
    for part in message.parts:
        match part:
            case Text():
                if part.text:
                    yield {"type": "text", "text": part.text}
            case ImagePart():
                yield _image(part, images)
            case ToolCall():
                arguments = part.arguments if part.malformed is None else {"malformed_arguments": part.malformed}
                yield {"type": "tool_use", "id": part.id, "name": part.name, "input": arguments}
            case ToolResult():
                shown = [{"type": "text", "text": part.text}] if part.text else []
                content = [*shown, *(_image(image, images) for image in part.images)]
                yield {"type": "tool_result", "tool_use_id": part.call, "content": content, "is_error": part.error}
            case Tensor():
                raise ModelError("an array cannot be sent to a chat endpoint; use text and images", kind="bad_request")
            case Reasoning():
                pass


def _image(image: ImagePart, images: Mapping[str, bytes] | None) -> Json:
    if images is None:
        raise ModelError(
            "the conversation holds images, and this model takes text only; if it sees them, name it `anthropic+images:NAME`",
            kind="bad_request",
        )
    data = base64.b64encode(images[image.artifact]).decode()
    return {"type": "image", "source": {"type": "base64", "media_type": image.media_type, "data": data}}


# -- incoming ----------------------------------------------------------------------------------------------------------


class _ReplyBlock(msgspec.Struct):
    """One block of the reply."""

    type: str
    text: str | None = None
    thinking: str | None = None
    id: str = ""
    name: str = ""
    input: Any = None


class _MessagesUsage(msgspec.Struct):
    """Token counts; `input_tokens` leaves out what was read from or written to the cache."""

    input_tokens: Count | None = None
    output_tokens: Count | None = None
    cache_read_input_tokens: Count | None = None
    cache_creation_input_tokens: Count | None = None


class _MessagesReply(msgspec.Struct):
    """A reply of `/v1/messages`."""

    content: list[_ReplyBlock] | None = None
    stop_reason: str | None = None
    usage: _MessagesUsage | None = None
    error: Any = None


_decoder = msgspec.json.Decoder(_MessagesReply)


def parse_messages_reply(body: bytes) -> Reply:
    """Parse a reply body; `ModelError` if it is none of this API."""
    try:
        incoming = decode_reply(_decoder, body)
    except (ValueError, RecursionError) as error:
        raise _malformed(f"{type(error).__name__}: {error}", body) from None
    if incoming.error is not None:
        raise error_in_reply(incoming.error)
    if incoming.content is None:
        raise _malformed("it has no `content`", body)
    parts = tuple(_parts(incoming.content))
    stop = _STOPS.get(incoming.stop_reason or "end_turn", "stop")
    if stop in {"stop", "calls"}:
        stop = "calls" if any(isinstance(part, ToolCall) for part in parts) else "stop"
    return Reply(parts=parts, usage=_usage(incoming.usage), stop=stop)


def _parts(blocks: Sequence[_ReplyBlock]) -> Iterator[Part]:
    taken: set[str] = set()
    for place, block in enumerate(blocks):
        if block.type == "thinking" and block.thinking:
            yield Reasoning(block.thinking)
        elif block.type == "text" and block.text:
            yield Text(block.text)
        elif block.type == "tool_use":
            call = block.id[:MAX_NAME] or f"call_{place}"
            while call in taken:
                call += f".{place}"
            taken.add(call)
            yield tool_call(call, block.name, msgspec.json.encode({} if block.input is None else block.input).decode())


def _usage(usage: _MessagesUsage | None) -> Usage:
    if usage is None:
        return Usage()
    cached = usage.cache_read_input_tokens or 0
    return Usage(
        prompt_tokens=(usage.input_tokens or 0) + cached + (usage.cache_creation_input_tokens or 0),
        completion_tokens=usage.output_tokens or 0,
        cached_tokens=cached,
    )


def _malformed(why: str, body: bytes) -> ModelError:
    start = body[:200].decode("utf-8", "replace")
    return ModelError(
        f"the endpoint's reply is not a message: {why}; it begins {start!r}. Is the base URL right? Most end in /v1",
        kind="malformed",
    )
