"""A turn as our servers handle it: the request and the reply that OpenAI's and Anthropic's formats are translated to and from."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

import msgspec
from starlette.exceptions import HTTPException

from sandlot.core.ports.world import ToolSpec
from sandlot.core.trace import Message, Text, ToolCall, ToolResult, Usage
from sandlot.core.types import Json, Role
from sandlot.model.wire.arguments import MAX_NAME, tool_call


@dataclass(frozen=True, slots=True)
class TurnRequest:
    """A client's request for one assistant message."""

    messages: tuple[Message, ...]
    tools: tuple[ToolSpec, ...]
    stream: bool
    sampling: Json
    """The sampling fields that the request sets, under their wire names: temperature, max_tokens, stop and others."""


@dataclass(frozen=True, slots=True)
class TurnReply:
    """One assistant message with why it stopped and its token counts."""

    message: Message
    stop: str
    """`stop`, `length`, `calls` or `refusal`."""
    usage: Usage


_EMPTY_SCHEMA: Json = {"type": "object", "properties": {}}
_MAX_MESSAGES = 10_000
"""Messages of one request."""


def bad_field(field: str, why: str) -> HTTPException:
    """HTTP 400 that names the field."""
    return HTTPException(400, f"`{field}`: {why}")


def schema_of(field: str, schema: Json | None) -> Json:
    """The JSON Schema of a tool's arguments; HTTP 400 if it is not an object schema that every renderer can read."""
    if not schema:
        return _EMPTY_SCHEMA
    required: Any = schema.get("required") or []
    if not isinstance(schema.get("properties") or {}, dict):
        raise bad_field(f"{field}.properties", "must be an object")
    if not isinstance(required, list) or not all(isinstance(name, str) for name in cast("list[Any]", required)):
        raise bad_field(f"{field}.required", "must be a list of names")
    return schema


def call_from_history(call_id: str, name: str, arguments: object) -> ToolCall:
    """A call of the history; its arguments are an object or its JSON text. Anything else is kept as malformed text."""
    return tool_call(
        call_id[:MAX_NAME], name, arguments if isinstance(arguments, str) else msgspec.json.encode(arguments).decode()
    )


def arguments_text(call: ToolCall) -> str:
    """A call's arguments as JSON text; malformed ones as the text that was received."""
    return call.malformed if call.malformed is not None else msgspec.json.encode(call.arguments).decode()


def join_results(messages: Sequence[Message]) -> tuple[Message, ...]:
    """The messages with adjacent tool results merged: one message holds all results of a turn, as in the tool loop."""
    if len(messages) > _MAX_MESSAGES:
        raise bad_field("messages", f"{len(messages)} messages; the maximum is {_MAX_MESSAGES}")
    whole: list[Message] = []
    for message in messages:
        last = whole[-1] if whole else None
        if last is not None and message.role is Role.TOOL and last.role is Role.TOOL:
            whole[-1] = msgspec.structs.replace(last, parts=(*last.parts, *message.parts))
        else:
            whole.append(message)
    return tuple(whole)


def text_parts(text: str) -> tuple[Text, ...]:
    """The text as one part; no part if it is empty."""
    return (Text(text),) if text else ()


def result_message(call: str, text: str, *, error: bool = False) -> Message:
    """A tool result as a message."""
    return Message(role=Role.TOOL, parts=(ToolResult(call[:MAX_NAME], text, error=error),), agent="environment")


def given_fields(request: Any, names: Sequence[str]) -> Json:
    """The named fields of a request that are set."""
    return {name: value for name in names if (value := getattr(request, name)) is not None}
