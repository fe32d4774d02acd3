"""OpenAI chat completions, the server's side: a request in our words, a turn in theirs, whole or as a stream of events.

What would change the answer and is not done (`logit_bias`, penalties, a forced `tool_choice`, images) is refused by name, never
left out in silence.
"""

import time
from collections.abc import Iterator
from typing import Annotated, Any, Literal
from uuid import uuid4

import msgspec

from sandlot.core.ports.world import ToolSpec
from sandlot.core.trace import Message, Part, Reasoning, Usage
from sandlot.core.types import Json, Role
from sandlot.model.wire.http import LAST_EVENT, decode_body, sse_event
from sandlot.model.wire.turn import (
    TurnReply,
    TurnRequest,
    arguments_text,
    bad_field,
    call_from_history,
    given_fields,
    join_results,
    result_message,
    schema_of,
    text_parts,
)

FINISH_REASONS = {"stop": "stop", "length": "length", "calls": "tool_calls", "refusal": "content_filter"}
"""Why a turn stopped, in OpenAI's words."""

Share = Annotated[float, msgspec.Meta(ge=0, le=1)]
Count = Annotated[int, msgspec.Meta(ge=1, le=2**31 - 1)]


class InFunction(msgspec.Struct):
    """A call made earlier; its arguments are JSON text."""

    name: str
    arguments: Any = ""


class InCall(msgspec.Struct):
    """A call made earlier, under its id."""

    function: InFunction
    id: str = ""


class InPart(msgspec.Struct):
    """A piece of content."""

    type: str
    text: str | None = None


class InMessage(msgspec.Struct):
    """One message of the history."""

    role: Literal["system", "developer", "user", "assistant", "tool"]
    content: str | list[InPart] | None = None
    tool_calls: list[InCall] | None = None
    tool_call_id: str | None = None
    reasoning_content: str | None = None


class InToolFunction(msgspec.Struct):
    """A tool."""

    name: str
    description: str | None = None
    parameters: Json | None = None


class InTool(msgspec.Struct):
    """A tool in its wrapping."""

    function: InToolFunction
    type: str = "function"


class StreamOptions(msgspec.Struct):
    """What a stream says at its end."""

    include_usage: bool | None = None


class SamplingRequest(msgspec.Struct):
    """How a completion is to be sampled; chat and plain completions share these fields."""

    model: str = ""
    temperature: Annotated[float, msgspec.Meta(ge=0, le=100)] | None = None
    top_p: Share | None = None
    top_k: Annotated[int, msgspec.Meta(ge=-1, le=2**31 - 1)] | None = None
    max_tokens: Count | None = None
    stop: str | list[str] | None = None
    seed: Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)] | None = None
    n: Annotated[int, msgspec.Meta(ge=1, le=64)] | None = None
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    return_token_ids: bool | None = None
    session: str = ""
    logit_bias: Json | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    repetition_penalty: float | None = None
    min_p: float | None = None

    @property
    def with_usage(self) -> bool:
        """True if a stream is to end with what it cost."""
        return bool(self.stream_options and self.stream_options.include_usage)


class ChatRequest(SamplingRequest):
    """`POST /v1/chat/completions`."""

    messages: list[InMessage] = []
    tools: list[InTool] | None = None
    tool_choice: Any = None
    max_completion_tokens: Count | None = None
    logprobs: bool | None = None
    top_logprobs: int | None = None
    response_format: Json | None = None


_SAMPLING_FIELDS = ("temperature", "top_p", "top_k", "max_tokens", "max_completion_tokens", "stop", "seed")
_NEUTRAL: Json = {"logit_bias": {}, "presence_penalty": 0, "frequency_penalty": 0, "repetition_penalty": 1, "min_p": 0}
"""Fields that are accepted only with the value that changes nothing."""


def refuse_unsupported(request: SamplingRequest) -> None:
    """Refuse what would change the distribution and is not done."""
    for name, neutral in _NEUTRAL.items():
        value = getattr(request, name)
        if value is not None and value != neutral:
            raise bad_field(name, f"is {value!r}; only {neutral!r} is supported")


def read_chat(body: bytes) -> tuple[ChatRequest, TurnRequest]:
    """The request as it came and in our words; a 400 that names the field if it is none."""
    request = decode_body(body, ChatRequest)
    if not request.messages:
        raise bad_field("messages", "there are none")
    refuse_unsupported(request)
    if request.tool_choice not in (None, "auto", "none"):
        raise bad_field("tool_choice", f"is {request.tool_choice!r}; only `auto` and `none` are supported")
    if request.response_format is not None and request.response_format.get("type") != "text":
        raise bad_field("response_format", "only `text` is supported")
    messages = join_results([_message(place, message) for place, message in enumerate(request.messages)])
    tools = () if request.tool_choice == "none" else tuple(_tool(place, tool) for place, tool in enumerate(request.tools or ()))
    sampling = given_fields(request, _SAMPLING_FIELDS)
    return request, TurnRequest(messages=messages, tools=tools, stream=bool(request.stream), sampling=sampling)


def _message(place: int, message: InMessage) -> Message:
    text = _text(place, message)
    match message.role:
        case "system" | "developer":
            return Message(role=Role.SYSTEM, parts=text_parts(text))
        case "user":
            return Message(role=Role.USER, parts=text_parts(text))
        case "tool":
            if not message.tool_call_id:
                raise bad_field(f"messages[{place}].tool_call_id", "a tool message names the call it answers")
            return result_message(message.tool_call_id, text)
        case "assistant":
            thought: tuple[Part, ...] = (Reasoning(message.reasoning_content),) if message.reasoning_content else ()
            calls = tuple(
                call_from_history(call.id or f"call_{place}_{index}", call.function.name, call.function.arguments)
                for index, call in enumerate(message.tool_calls or ())
            )
            return Message(role=Role.ASSISTANT, parts=(*thought, *text_parts(text), *calls))


def _text(place: int, message: InMessage) -> str:
    if not isinstance(message.content, list):
        return message.content or ""
    for index, part in enumerate(message.content):
        if part.type not in {"text", "input_text", "output_text"} or part.text is None:
            raise bad_field(f"messages[{place}].content[{index}]", f"is of type `{part.type}`; only text is supported")
    return "".join(part.text or "" for part in message.content)


def _tool(place: int, tool: InTool) -> ToolSpec:
    function = tool.function
    schema = schema_of(f"tools[{place}].function.parameters", function.parameters)
    return ToolSpec(name=function.name, description=function.description or "", parameters=schema)


# -- replies -----------------------------------------------------------------------------------------------------------


def _message_body(message: Message) -> Json:
    """An assistant's message as OpenAI has it."""
    body: Json = {"role": "assistant", "content": message.text or (None if message.calls else "")}
    thoughts = "".join(part.text for part in message.parts if isinstance(part, Reasoning))
    if thoughts:
        body["reasoning_content"] = thoughts
    if message.calls:
        body["tool_calls"] = [
            {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": arguments_text(call)}}
            for call in message.calls
        ]
    return body


def usage_body(usage: Usage) -> Json:
    """What a turn cost."""
    return {
        "prompt_tokens": usage.prompt_tokens,
        "completion_tokens": usage.completion_tokens,
        "total_tokens": usage.prompt_tokens + usage.completion_tokens,
        "prompt_tokens_details": {"cached_tokens": usage.cached_tokens},
    }


def reply_head(kind: str, model: str) -> Json:
    """What every reply begins with; a stream's chunks share one."""
    prefix = "cmpl" if kind == "text_completion" else "chatcmpl"
    return {"id": f"{prefix}-{uuid4().hex}", "object": kind, "created": int(time.time()), "model": model}


def chat_choice(answered: TurnReply, index: int = 0) -> Json:
    """One turn as a choice."""
    return {"index": index, "message": _message_body(answered.message), "finish_reason": FINISH_REASONS[answered.stop]}


def chat_body(answered: TurnReply, model: str) -> Json:
    """One turn as a whole reply."""
    return reply_head("chat.completion", model) | {"choices": [chat_choice(answered)], "usage": usage_body(answered.usage)}


def chat_events(answered: TurnReply, model: str, *, usage: bool) -> Iterator[bytes]:
    """One turn as the events of a stream."""
    top = reply_head("chat.completion.chunk", model)
    yield from choice_events(top, chat_choice(answered))
    if usage:
        yield sse_event(top | {"choices": [], "usage": usage_body(answered.usage)})
    yield LAST_EVENT


def choice_events(top: Json, choice: Json) -> Iterator[bytes]:
    """A choice as events: who speaks, what is said, each call, and then the rest of the choice with why it ended."""
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
