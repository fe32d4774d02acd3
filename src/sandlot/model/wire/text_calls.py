"""Tool calls written in plain text, for models without a native call format.

Three formats are read: `<tool_call>{"name": ..., "arguments": {...}}</tool_call>` (Hermes, Qwen), blocks fenced as `json` or
`tool_call` with the same object, and `<function=NAME>{...}</function>` (Llama). A block that is
clearly meant as a call and cannot be parsed becomes a call with `malformed`, so that the agent gets an error. Nothing raises, and
hostile text costs bounded time: only the first `MAX_TEXT` characters are searched, for at most `MAX_OPENINGS` blocks.
"""

import re
from collections.abc import Sequence
from json import JSONDecodeError, JSONDecoder
from typing import Any, NamedTuple, cast

import msgspec

from sandlot.core.ports.world import ToolSpec
from sandlot.core.trace import Message, Part, Text, ToolCall, ToolResult
from sandlot.core.types import Json, Role
from sandlot.model.wire.arguments import MAX_CHARS, is_storable, malformed_call, short_name, tool_call

MAX_TEXT = 2**20
MAX_OPENINGS = 64

_OPENING = re.compile(r"<tool_call>|<function=([A-Za-z0-9_.:/-]{1,128})>|```(json|tool_call)(?=\s)")
_SPACE = re.compile(r"\s*")


class FoundCalls(NamedTuple):
    """The calls found in a text, and the text without them."""

    text: str
    calls: tuple[ToolCall, ...]


def parse_calls(text: str, prefix: str = "call") -> FoundCalls:
    """Find the calls; their ids are `prefix` and a number. Text without calls is returned unchanged."""
    scan = text[:MAX_TEXT]
    kept: list[str] = []
    calls: list[ToolCall] = []
    at = 0
    for _ in range(MAX_OPENINGS):
        opening = _OPENING.search(scan, at)
        if opening is None:
            break
        found, end = _read_block(scan, opening, f"{prefix}_{len(calls)}")
        kept.append(scan[at : opening.start()] if found else scan[at:end])
        calls += found
        at = end
    if not calls:
        return FoundCalls(text, ())
    kept.append(text[at:])
    return FoundCalls("".join(kept).strip(), tuple(calls))


def _read_block(text: str, opening: re.Match[str], call_id: str) -> tuple[list[ToolCall], int]:
    """The calls in one block, and where the block ends; no calls if it is a `json` fence with other content."""
    name, fence = opening.group(1), opening.group(2)
    closing = "```" if fence else "</function>" if name else "</tool_call>"
    value, end = _json_at(text, opening.end())
    if value is not None:
        calls = _calls_in(value, text[opening.end() : end], call_id, name=name, strict=fence == "json")
        if calls or fence == "json":
            return calls, _after(text, end, closing)
    if fence == "json":  # it is part of the answer
        return [], opening.end()
    close = text.find(closing, opening.end())
    end = len(text) if close < 0 else close
    after = min(len(text), end + len(closing))
    body = text[opening.end() : end].strip()
    if name:
        return [tool_call(call_id, name, body)], after
    return [malformed_call(call_id, _name_in(body), body)], after


def block_calls(body: str, call_id: str) -> list[ToolCall]:
    """The calls in a block that is enclosed by control tokens; one malformed call if it cannot be parsed."""
    value, end = _json_at(body[:MAX_TEXT], 0)
    calls = _calls_in(value, body[:end], call_id, name=None, strict=False) if not body[end:].strip() else []
    return calls or [malformed_call(call_id, _name_in(body), body.strip())]


def _json_at(text: str, start: int) -> tuple[Any, int]:
    """A JSON value and where it ends; None if there is none. Closing tags and fences inside strings do not end it."""
    begin = cast("re.Match[str]", _SPACE.match(text, start)).end()
    try:
        return _DECODER.raw_decode(text, begin)
    except (JSONDecodeError, ValueError, RecursionError):
        return None, begin


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


_DECODER = JSONDecoder(parse_constant=_no_constant, strict=False)


def _after(text: str, end: int, closing: str) -> int:
    """The position after the closing tag, which many models leave out."""
    mark = cast("re.Match[str]", _SPACE.match(text, end)).end()
    return mark + len(closing) if text.startswith(closing, mark) else end


def _calls_in(value: Any, source: str, call_id: str, *, name: str | None, strict: bool) -> list[ToolCall]:
    """Calls from a decoded block: one object or a list of them. If `name` is given, the object is the arguments.

    With `strict` an object is a call only if it has arguments, since a JSON answer may also have a `name`.
    """
    if name is not None:
        return [_call(call_id, name, value, source)]
    entries = cast("list[Any]", value) if isinstance(value, list) else [value]
    calls: list[ToolCall] = []
    for index, entry in enumerate(entries[:MAX_OPENINGS]):
        fields = cast("Json", entry) if isinstance(entry, dict) else {}
        given = next((key for key in ("arguments", "parameters") if key in fields), None)
        called = fields.get("name")
        if not isinstance(called, str) or (strict and given is None):
            return []
        calls.append(_call(call_id if index == 0 else f"{call_id}_{index}", called, fields[given] if given else None, source))
    return calls


def _call(call_id: str, name: str, arguments: Any, source: str) -> ToolCall:
    if isinstance(arguments, str):  # some models write the object as a string
        return tool_call(call_id, name, arguments)
    if arguments is None:
        return tool_call(call_id, name, "")
    if isinstance(arguments, dict) and len(source) <= MAX_CHARS and is_storable(cast("Json", arguments)):
        return ToolCall(call_id, short_name(name), cast("Json", arguments))
    return malformed_call(call_id, name, source)


_NAME = re.compile(r'"name"\s{0,8}:\s{0,8}"([^"\\]{1,128})"')


def _name_in(body: str) -> str:
    """The tool's name in a call that is not JSON, for the error message."""
    found = _NAME.search(body[:4096])
    return found.group(1) if found else "unreadable"


# -- writing -----------------------------------------------------------------------------------------------


def tool_instructions(tools: Sequence[ToolSpec]) -> str:
    """The system prompt's section about tools; empty without tools."""
    if not tools:
        return ""
    listed = "\n".join(
        msgspec.json.encode({"name": tool.name, "description": tool.description, "parameters": tool.parameters}).decode()
        for tool in tools
    )
    return f"""You may call tools. Each line is one tool with the JSON Schema of its arguments:

<tools>
{listed}
</tools>

To call one, write exactly this, and nothing after it:

<tool_call>
{{"name": "TOOL", "arguments": {{"ARGUMENT": "VALUE"}}}}
</tool_call>

You may write several such blocks. Each result comes back inside <tool_response>...</tool_response>. \
When the task is done, answer without any tool call."""


def messages_as_text(messages: Sequence[Message], tools: Sequence[ToolSpec]) -> list[Message]:
    """The history for a model without native calls: tools in the system message, calls and results as text."""
    shown = [_message_as_text(message) for message in messages]
    explanation = tool_instructions(tools)
    if not explanation:
        return shown
    if shown and shown[0].role is Role.SYSTEM:
        first = Message(role=Role.SYSTEM, parts=(Text(f"{shown[0].text}\n\n{explanation}"),))
        return [first, *shown[1:]]
    return [Message(role=Role.SYSTEM, parts=(Text(explanation),)), *shown]


def _message_as_text(message: Message) -> Message:
    if not any(isinstance(part, ToolCall | ToolResult) for part in message.parts):
        return message
    parts = tuple(shown for part in message.parts for shown in _part_as_text(part))
    role = Role.USER if message.role is Role.TOOL else message.role
    return msgspec.structs.replace(message, role=role, parts=parts)


def _part_as_text(part: Part) -> tuple[Part, ...]:
    match part:
        case ToolCall(malformed=None):
            written = msgspec.json.encode({"name": part.name, "arguments": part.arguments}).decode()
            return (Text(f"\n<tool_call>\n{written}\n</tool_call>"),)
        case ToolCall():
            return (Text(f"\n<tool_call>\n{part.malformed}\n</tool_call>"),)
        case ToolResult():
            return (Text(f"<tool_response>\n{part.text}\n</tool_response>\n"), *part.images)
        case _:
            return (part,)
