"""What a client of any dialect asks for and gets, in our own words: the dialects only translate."""

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
    """One request for a turn."""

    messages: tuple[Message, ...]
    tools: tuple[ToolSpec, ...]
    stream: bool
    sampling: Json
    """How it wants to be sampled, as far as it says so: temperature, max_tokens, stop and the like."""


@dataclass(frozen=True, slots=True)
class TurnReply:
    """One turn as it goes back."""

    message: Message
    stop: str
    """`stop`, `length`, `calls` or `refusal`."""
    usage: Usage


_EMPTY_SCHEMA: Json = {"type": "object", "properties": {}}
_MAX_MESSAGES = 10_000
"""Of one history."""


def bad_field(field: str, why: str) -> HTTPException:
    """A 400 that names the field."""
    return HTTPException(400, f"`{field}`: {why}")


def schema_of(field: str, schema: Json | None) -> Json:
    """What a tool takes, in the shape every renderer reads; a 400 if it is none, which is its client's mistake."""
    if not schema:
        return _EMPTY_SCHEMA
    required: Any = schema.get("required") or []
    if not isinstance(schema.get("properties") or {}, dict):
        raise bad_field(f"{field}.properties", "is not an object")
    if not isinstance(required, list) or not all(isinstance(name, str) for name in cast("list[Any]", required)):
        raise bad_field(f"{field}.required", "is not a list of names")
    return schema


def call_from_history(call_id: str, name: str, arguments: object) -> ToolCall:
    """A call out of a history: its arguments an object or JSON text of one; anything else is kept as text."""
    return tool_call(
        call_id[:MAX_NAME], name, arguments if isinstance(arguments, str) else msgspec.json.encode(arguments).decode()
    )


def arguments_text(call: ToolCall) -> str:
    """A call's arguments as JSON text; those that could not be read go out as they came."""
    return call.malformed if call.malformed is not None else msgspec.json.encode(call.arguments).decode()


def join_results(messages: Sequence[Message]) -> tuple[Message, ...]:
    """The messages with neighbouring tool results in one, as the tool loop has them: one message for the results of a turn."""
    if len(messages) > _MAX_MESSAGES:
        raise bad_field("messages", f"there are {len(messages)}; at most {_MAX_MESSAGES} are read")
    whole: list[Message] = []
    for message in messages:
        last = whole[-1] if whole else None
        if last is not None and message.role is Role.TOOL and last.role is Role.TOOL:
            whole[-1] = msgspec.structs.replace(last, parts=(*last.parts, *message.parts))
        else:
            whole.append(message)
    return tuple(whole)


def text_parts(text: str) -> tuple[Text, ...]:
    """The text as a part; none for no text."""
    return (Text(text),) if text else ()


def result_message(call: str, text: str, *, error: bool = False) -> Message:
    """One tool result as a message."""
    return Message(role=Role.TOOL, parts=(ToolResult(call[:MAX_NAME], text, error=error),), agent="environment")


def given_fields(request: Any, names: Sequence[str]) -> Json:
    """The named fields that were given."""
    return {name: value for name in names if (value := getattr(request, name)) is not None}
