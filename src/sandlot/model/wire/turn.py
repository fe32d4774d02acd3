"""A turn as our servers handle it: the request and the reply that OpenAI's and Anthropic's formats are translated to and from."""

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import msgspec
from starlette.exceptions import HTTPException

from sandlot.core.image_formats import MAX_IMAGE_BYTES, ImageFacts, image_facts
from sandlot.core.ports.world import ToolSpec
from sandlot.core.trace import ImagePart, Message, Text, ToolCall, ToolResult, Usage
from sandlot.core.types import Json, Role, digest
from sandlot.model.wire.arguments import MAX_NAME, tool_call


@dataclass(frozen=True, slots=True)
class TurnRequest:
    """A client's request for one assistant message."""

    messages: tuple[Message, ...]
    tools: tuple[ToolSpec, ...]
    stream: bool
    sampling: Json
    """The sampling fields that the request sets, under their wire names: temperature, max_tokens, stop and others."""
    images: Mapping[str, bytes] = field(default_factory=dict[str, bytes])
    """The bytes of the messages' images, by hash."""


@dataclass(frozen=True, slots=True)
class TurnReply:
    """One assistant message with why it stopped and its token counts."""

    message: Message
    stop: str
    """`stop`, `length`, `calls` or `refusal`."""
    usage: Usage


class RequestImages:
    """The images of one request as they are read. Each different one is unpacked once."""

    def __init__(self) -> None:
        self.content: dict[str, bytes] = {}
        self._facts: dict[str, ImageFacts] = {}
        self._num_images = self._num_pixels = 0

    def add(self, image: bytes) -> ImagePart:
        """Keep an image; `ValueError` if it is none, or if it is one too many."""
        name = digest(image)
        self._num_images += 1
        if self._num_images > _MAX_IMAGES:
            raise ValueError(f"is one image too many; a request may hold {_MAX_IMAGES}")
        if name not in self._facts:
            facts = self._facts[name] = image_facts(image)
            self._num_pixels += facts.width * facts.height
            if self._num_pixels > _MAX_PIXELS:
                raise ValueError(f"is one image too many; those of a request may have {_MAX_PIXELS:,} pixels in all")
            self.content[name] = image
        facts = self._facts[name]
        return ImagePart(name, facts.media_type, width=facts.width, height=facts.height)


_EMPTY_SCHEMA: Json = {"type": "object", "properties": {}}
_MAX_IMAGES = 256
"""Images of one request, the same one twice counted as two."""
_MAX_PIXELS = 300_000_000
"""Pixels of all different images of one request: each is unpacked to see that it is whole."""
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


def result_message(call: str, text: str, *, error: bool = False, images: tuple[ImagePart, ...] = ()) -> Message:
    """A tool result as a message."""
    return Message(role=Role.TOOL, parts=(ToolResult(call[:MAX_NAME], text, error=error, images=images),), agent="environment")


def image_from_uri(where: str, address: str, found: RequestImages) -> ImagePart:
    """An image in a data URI. An address elsewhere is refused: our server fetches nothing for an agent."""
    head, mark, data = address.partition(";base64,")
    if not mark or not head.startswith("data:"):
        raise bad_field(where, "is not a data URI; send the image itself, as `data:image/png;base64,...`")
    return image_from_base64(where, data, found)


def image_from_base64(where: str, data: str, found: RequestImages) -> ImagePart:
    """An image as base64 text. Its bytes go to `found`; HTTP 400 if they are no image, whatever type the request names."""
    if len(data) > MAX_IMAGE_BYTES * 4 // 3 + 4:
        raise bad_field(where, f"is an image of more than {MAX_IMAGE_BYTES:,} bytes")
    try:
        return found.add(base64.b64decode(data, validate=True))
    except ValueError as error:
        raise bad_field(where, str(error)) from None


def given_fields(request: Any, names: Sequence[str]) -> Json:
    """The named fields of a request that are set."""
    return {name: value for name in names if (value := getattr(request, name)) is not None}
