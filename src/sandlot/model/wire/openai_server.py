"""The server's side of OpenAI chat completions: a request to a `TurnRequest`, a turn to a reply or a stream of events.

Options that would change the answer and are unsupported (`logit_bias`, penalties, a forced `tool_choice`) are refused by
name, never ignored; so are images where the model takes text only.
"""

import time
from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import msgspec

from sandlot.core.ports.world import ToolSpec
from sandlot.core.trace import ImagePart, Message, Part, Reasoning, Text, Usage
from sandlot.core.types import Json, Role
from sandlot.model.wire.http import LAST_EVENT, decode_body, sse_event
from sandlot.model.wire.openai import ChatImage, ChatMessage, ChatRequest, ChatTool, SamplingRequest, chat_message
from sandlot.model.wire.turn import (
    RequestImages,
    TurnReply,
    TurnRequest,
    arguments_text,
    bad_field,
    call_from_history,
    given_fields,
    image_from_uri,
    join_results,
    result_message,
    schema_of,
    text_parts,
)

FINISH_REASONS = {"stop": "stop", "length": "length", "calls": "tool_calls", "refusal": "content_filter"}
"""Our stop reasons to OpenAI's."""

_SAMPLING_FIELDS = ("temperature", "top_p", "top_k", "max_tokens", "max_completion_tokens", "stop", "seed")
_NEUTRAL: Json = {"logit_bias": {}, "presence_penalty": 0, "frequency_penalty": 0, "repetition_penalty": 1, "min_p": 0}
"""Unsupported fields with their neutral value, the only one that is accepted."""


def refuse_unsupported(request: SamplingRequest) -> None:
    """Refuse fields that would change the distribution and are not supported."""
    for name, neutral in _NEUTRAL.items():
        value = getattr(request, name)
        if value is not None and value != neutral:
            raise bad_field(name, f"is {value!r}; only {neutral!r} is supported")


def read_chat(body: bytes, *, images: bool = False) -> tuple[ChatRequest, TurnRequest]:
    """The decoded request and its `TurnRequest`; HTTP 400 names a field that is wrong. Without `images`, an image is."""
    request = decode_body(body, ChatRequest)
    if not request.messages:
        raise bad_field("messages", "the list is empty")
    refuse_unsupported(request)
    if request.tool_choice not in (None, "auto", "none"):
        raise bad_field("tool_choice", f"is {request.tool_choice!r}; only `auto` and `none` are supported")
    if request.response_format is not None and request.response_format.get("type") != "text":
        raise bad_field("response_format", "only `text` is supported")
    found = RequestImages() if images else None
    messages = join_results([_message(place, message, found) for place, message in enumerate(request.messages)])
    tools = () if request.tool_choice == "none" else tuple(_tool(place, tool) for place, tool in enumerate(request.tools or ()))
    sampling = given_fields(request, _SAMPLING_FIELDS)
    return request, TurnRequest(
        messages=messages, tools=tools, stream=bool(request.stream), sampling=sampling, images=found.content if found else {}
    )


def _message(place: int, message: ChatMessage, found: RequestImages | None) -> Message:
    parts = _parts(place, message, found)
    text = "".join(part.text for part in parts if isinstance(part, Text))
    match message.role:
        case "system" | "developer":
            return Message(role=Role.SYSTEM, parts=text_parts(text))
        case "user":
            return Message(role=Role.USER, parts=parts)
        case "tool":
            if not message.tool_call_id:
                raise bad_field(f"messages[{place}].tool_call_id", "is missing; a tool message names the call it answers")
            shown = tuple(part for part in parts if isinstance(part, ImagePart))
            return result_message(message.tool_call_id, text, images=shown)
        case "assistant":
            thought: tuple[Part, ...] = (Reasoning(message.reasoning_content),) if message.reasoning_content else ()
            calls = tuple(
                call_from_history(call.id or f"call_{place}_{index}", call.function.name, call.function.arguments)
                for index, call in enumerate(message.tool_calls or ())
            )
            return Message(role=Role.ASSISTANT, parts=(*thought, *text_parts(text), *calls))


def _parts(place: int, message: ChatMessage, found: RequestImages | None) -> tuple[Text | ImagePart, ...]:
    """The texts and images of a message; texts without an image between them are one. The bytes of images go to `found`."""
    if not isinstance(message.content, list):
        return text_parts(message.content or "")
    parts: list[Text | ImagePart] = []
    for index, part in enumerate(message.content):
        where = f"messages[{place}].content[{index}]"
        if found is not None and part.type == "image_url" and message.role in {"user", "tool"}:
            address = part.image_url.url if isinstance(part.image_url, ChatImage) else part.image_url
            parts.append(image_from_uri(where, address if isinstance(address, str) else "", found))
        elif part.type not in {"text", "input_text", "output_text"} or not isinstance(part.text, str):
            raise bad_field(where, f"is of type `{part.type}`; only text is supported")
        elif parts and isinstance(parts[-1], Text):
            parts[-1] = Text(parts[-1].text + part.text)
        elif part.text:
            parts.append(Text(part.text))
    return tuple(parts)


def _tool(place: int, tool: ChatTool) -> ToolSpec:
    function = tool.function
    schema = schema_of(f"tools[{place}].function.parameters", function.parameters)
    return ToolSpec(name=function.name, description=function.description or "", parameters=schema)


# -- replies -----------------------------------------------------------------------------------------------------------


def usage_body(usage: Usage) -> Json:
    """Token counts of a turn."""
    return {
        "prompt_tokens": usage.prompt_tokens,
        "completion_tokens": usage.completion_tokens,
        "total_tokens": usage.prompt_tokens + usage.completion_tokens,
        "prompt_tokens_details": {"cached_tokens": usage.cached_tokens},
    }


def reply_head(kind: str, model: str) -> Json:
    """The first fields of a reply; all chunks of a stream share them."""
    prefix = "cmpl" if kind == "text_completion" else "chatcmpl"
    return {"id": f"{prefix}-{uuid4().hex}", "object": kind, "created": int(time.time()), "model": model}


def chat_choice(reply: TurnReply, index: int = 0) -> Json:
    """One turn as a choice."""
    message: Json = msgspec.to_builtins(chat_message(reply.message, arguments_text))
    return {"index": index, "message": message, "finish_reason": FINISH_REASONS[reply.stop]}


def chat_body(reply: TurnReply, model: str) -> Json:
    """One turn as a reply body."""
    return reply_head("chat.completion", model) | {"choices": [chat_choice(reply)], "usage": usage_body(reply.usage)}


def chat_events(reply: TurnReply, model: str, *, usage: bool) -> Iterator[bytes]:
    """One turn as the events of a stream."""
    top = reply_head("chat.completion.chunk", model)
    yield from choice_events(top, chat_choice(reply))
    if usage:
        yield sse_event(top | {"choices": [], "usage": usage_body(reply.usage)})
    yield LAST_EVENT


def choice_events(top: Json, choice: Json) -> Iterator[bytes]:
    """A choice as events: the role, the text, each call, then the finish reason with all other fields."""
    message: Json = dict(choice["message"])

    def chunk(delta: Json, **more: Any) -> bytes:
        return sse_event(top | {"choices": [{"index": choice["index"], "delta": delta, "finish_reason": None} | more]})

    yield chunk({"role": "assistant", "content": ""})
    for name in ("reasoning_content", "content"):
        if message.get(name):
            yield chunk({name: message[name]})
    for place, call in enumerate(message.get("tool_calls", ())):
        yield chunk({"tool_calls": [{"index": place} | call]})
    yield chunk({}, **{name: value for name, value in choice.items() if name not in {"index", "message"}})
