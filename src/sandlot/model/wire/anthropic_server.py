"""The server's side of Anthropic messages: a request to a `TurnRequest`, a turn to a reply or a stream of events."""

from collections.abc import Iterator
from typing import Any, Literal
from uuid import uuid4

import msgspec

from sandlot.core.ports.world import ToolSpec
from sandlot.core.trace import ImagePart, Message, Part, Reasoning, Text, Usage
from sandlot.core.types import Json, Role
from sandlot.model.wire.http import decode_body, sse_event
from sandlot.model.wire.turn import (
    RequestImages,
    TurnReply,
    TurnRequest,
    bad_field,
    call_from_history,
    given_fields,
    image_from_base64,
    join_results,
    result_message,
    schema_of,
    text_parts,
)

_STOP_REASONS = {"stop": "end_turn", "length": "max_tokens", "calls": "tool_use", "refusal": "refusal"}
"""Our stop reasons to Anthropic's."""
_SAMPLING_FIELDS = ("temperature", "top_p", "top_k", "max_tokens", "stop_sequences")


class _InSource(msgspec.Struct):
    """Where an image is."""

    type: str
    data: str = ""


class _InBlock(msgspec.Struct):
    """One content block of any type."""

    type: str
    text: str | None = None
    thinking: str | None = None
    id: str = ""
    name: str = ""
    input: Any = None
    tool_use_id: str = ""
    content: "str | list[_InBlock] | None" = None
    source: _InSource | None = None
    is_error: bool | None = None


class _InMessage(msgspec.Struct):
    """One message of the history."""

    role: Literal["user", "assistant", "system"]
    content: str | list[_InBlock]


class _InTool(msgspec.Struct):
    """A tool. Tools that Anthropic runs itself have no schema."""

    name: str
    description: str | None = None
    input_schema: Json | None = None


class _MessagesRequest(msgspec.Struct):
    """`POST /v1/messages`."""

    messages: list[_InMessage]
    model: str = ""
    system: str | list[_InBlock] | None = None
    tools: list[_InTool] | None = None
    tool_choice: Json | None = None
    max_tokens: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    stop_sequences: list[str] | None = None
    stream: bool | None = None


def read_messages(body: bytes, *, images: bool = False) -> TurnRequest:
    """Decode a request; HTTP 400 names a field that is wrong. Without `images`, an image is."""
    request = decode_body(body, _MessagesRequest)
    if not request.messages:
        raise bad_field("messages", "the list is empty")
    choice = (request.tool_choice or {}).get("type", "auto")
    if choice not in {"auto", "none"}:
        raise bad_field("tool_choice", f"is {choice!r}; only `auto` and `none` are supported")
    system = _texts(request.system, "system") if request.system else ""
    messages = [Message(role=Role.SYSTEM, parts=text_parts(system))] if system else []
    found = RequestImages() if images else None
    for place, message in enumerate(request.messages):
        messages += _messages(place, message, found)
    tools = () if choice == "none" else tuple(_tool(place, tool) for place, tool in enumerate(request.tools or ()))
    return TurnRequest(
        messages=join_results(messages),
        tools=tools,
        stream=bool(request.stream),
        sampling=given_fields(request, _SAMPLING_FIELDS),
        images=found.content if found else {},
    )


def _messages(place: int, message: _InMessage, found: RequestImages | None) -> list[Message]:
    """One Anthropic message as one or more of ours: tool results stand in a user message, before the user's text."""
    role = {"user": Role.USER, "assistant": Role.ASSISTANT, "system": Role.SYSTEM}[message.role]
    if isinstance(message.content, str):
        return [Message(role=role, parts=text_parts(message.content))]
    results: list[Message] = []
    parts: list[Part] = []
    for index, block in enumerate(message.content):
        where = f"messages[{place}].content[{index}]"
        match block.type:
            case "text":
                parts.append(Text(block.text or ""))
            case "thinking":
                parts.append(Reasoning(block.thinking or ""))
            case "redacted_thinking":
                pass
            case "tool_use":
                parts.append(call_from_history(block.id or f"call_{place}_{index}", block.name, _input(block)))
            case "tool_result":
                results.append(_result(block, f"{where}.content", found))
            case "image" if found is not None and role is Role.USER:
                parts.append(_image(block, where, found))
            case _:
                raise bad_field(where, f"is of type `{block.type}`; only text, tools and their results are supported")
    said = [Message(role=role, parts=tuple(parts))] if parts or not results else []
    return [*results, *said]


def _result(block: _InBlock, where: str, found: RequestImages | None) -> Message:
    """A tool result with its texts and images."""
    content = block.content if isinstance(block.content, list) else []
    shown = tuple(
        _image(each, f"{where}[{at}]", found) for at, each in enumerate(content) if found is not None and each.type == "image"
    )
    rest = [each for each in content if found is None or each.type != "image"] if content else block.content
    return result_message(block.tool_use_id, _texts(rest, where), error=bool(block.is_error), images=shown)


def _image(block: _InBlock, where: str, found: RequestImages | None) -> ImagePart:
    if found is None or block.source is None or block.source.type != "base64":
        raise bad_field(f"{where}.source", "must be of type `base64`: the server fetches nothing")
    return image_from_base64(where, block.source.data, found)


def _input(block: _InBlock) -> object:
    """A call's arguments. Malformed ones were sent under `malformed_arguments` and are restored here."""
    match block.input:
        case {"malformed_arguments": str(text), **rest} if not rest:
            return text
        case _:
            return block.input or {}


def _texts(content: str | list[_InBlock] | None, where: str) -> str:
    if not isinstance(content, list):
        return content or ""
    for index, block in enumerate(content):
        if block.type != "text":
            raise bad_field(f"{where}[{index}]", f"is of type `{block.type}`; only text is supported")
    return "".join(block.text or "" for block in content)


def _tool(place: int, tool: _InTool) -> ToolSpec:
    schema = schema_of(f"tools[{place}].input_schema", tool.input_schema)
    return ToolSpec(name=tool.name, description=tool.description or "", parameters=schema)


# -- replies -----------------------------------------------------------------------------------------------------------


def messages_body(reply: TurnReply, model: str) -> Json:
    """One turn as a reply body."""
    return _head(model) | {
        "content": list(_blocks(reply.message)),
        "stop_reason": _STOP_REASONS[reply.stop],
        "stop_sequence": None,
        "usage": _usage(reply.usage),
    }


def messages_events(reply: TurnReply, model: str) -> Iterator[bytes]:
    """One turn as the events of a stream."""
    start: Json = _head(model) | {"content": [], "stop_reason": None, "stop_sequence": None}
    start["usage"] = _usage(reply.usage) | {"output_tokens": 0}
    yield _event("message_start", message=start)
    for place, block in enumerate(_blocks(reply.message)):
        empty, delta = _streamed(block)
        yield _event("content_block_start", index=place, content_block=empty)
        yield _event("content_block_delta", index=place, delta=delta)
        yield _event("content_block_stop", index=place)
    end = {"stop_reason": _STOP_REASONS[reply.stop], "stop_sequence": None}
    yield _event("message_delta", delta=end, usage={"output_tokens": reply.usage.completion_tokens})
    yield _event("message_stop")


def _head(model: str) -> Json:
    return {"id": f"msg_{uuid4().hex}", "type": "message", "role": "assistant", "model": model}


def _blocks(message: Message) -> Iterator[Json]:
    thoughts = "".join(part.text for part in message.parts if isinstance(part, Reasoning))
    if thoughts:
        yield {"type": "thinking", "thinking": thoughts, "signature": ""}
    if message.text:
        yield {"type": "text", "text": message.text}
    for call in message.calls:
        arguments = call.arguments if call.malformed is None else {"malformed_arguments": call.malformed}  # see `_input`
        yield {"type": "tool_use", "id": call.id, "name": call.name, "input": arguments}


def _streamed(block: Json) -> tuple[Json, Json]:
    """The empty block that opens a stream, and the delta with all of its content."""
    match block["type"]:
        case "text":
            return {"type": "text", "text": ""}, {"type": "text_delta", "text": block["text"]}
        case "thinking":
            return {"type": "thinking", "thinking": "", "signature": ""}, {
                "type": "thinking_delta",
                "thinking": block["thinking"],
            }
        case _:
            written = msgspec.json.encode(block["input"]).decode()
            return block | {"input": {}}, {"type": "input_json_delta", "partial_json": written}


def _usage(usage: Usage) -> Json:
    return {
        "input_tokens": usage.prompt_tokens - usage.cached_tokens,
        "cache_read_input_tokens": usage.cached_tokens,
        "cache_creation_input_tokens": 0,
        "output_tokens": usage.completion_tokens,
    }


def _event(name: str, **fields: Any) -> bytes:
    return sse_event({"type": name} | fields, name)
