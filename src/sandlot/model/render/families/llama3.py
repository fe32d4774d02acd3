"""Llama 3, 3.1, 3.2, 3.3: headers, trimmed text, calls as bare JSON, tool results in the role `ipython`.

    <|start_header_id|>assistant<|end_header_id|>

    {"name": "read_ticket", "parameters": {"ticket": "T-3"}}<|eot_id|><|start_header_id|>ipython<|end_header_id|>

    "..."<|eot_id|>

The models were trained with one call per turn. If a model writes several, each is on its own line.
"""

import json
import re
from collections.abc import Sequence
from json import JSONDecodeError, JSONDecoder
from typing import Any, cast

from sandlot.core.ports.world import ToolSpec
from sandlot.core.trace import Message, Part, Text, ToolCall, ToolResult, text_message
from sandlot.core.types import Json, Role
from sandlot.model.render.family import Family, Head, call_text, pieces_text
from sandlot.model.render.template import ChatTemplate, as_function
from sandlot.model.render.tokenizer import ControlToken, Piece
from sandlot.model.wire.arguments import MAX_CHARS, is_storable, malformed_call, short_name
from sandlot.model.wire.text_calls import MAX_OPENINGS, MAX_TEXT, parse_calls, tool_instructions

BEGIN, HEADER, HEADER_END = (
    ControlToken("<|begin_of_text|>"),
    ControlToken("<|start_header_id|>"),
    ControlToken("<|end_header_id|>"),
)
END, PYTHON = ControlToken("<|eot_id|>"), ControlToken("<|python_tag|>")

_TOOL_SECTION = """\
Given the following functions, please respond with a JSON for a function call with its proper arguments that best answers the \
given prompt.

Respond in the format {"name": function name, "parameters": dictionary of argument name and its value}.Do not use variables.

"""
_CALL = re.compile(r'^[ \t]*(?=\{\s{0,8}"name")', re.MULTILINE)


def llama3(template: ChatTemplate | None) -> Family:
    """The family for this template; newer templates contain a date and a tool section."""
    preamble = _preamble(template)
    native = template is not None and template.has_tools

    def head(messages: Sequence[Message], tools: Sequence[ToolSpec]) -> Head:
        return _head(messages, tools, preamble, native=native)

    return Family(
        name="llama3",
        openings={
            Role.SYSTEM: _opening("system"),
            Role.USER: _opening("user"),
            Role.ASSISTANT: _opening("assistant"),
            Role.TOOL: _opening("ipython"),
        },
        end=END,
        other_ends=("<|eom_id|>",),
        head=head,
        body=_body,
        read=_read,
        marks=(BEGIN.text,),
    )


def _opening(role: str) -> tuple[Piece, ...]:
    return (HEADER, role, HEADER_END, "\n\n")


def _preamble(template: ChatTemplate | None) -> str | None:
    """The template's text before a system prompt; None if it writes a system turn only when one is given."""
    opening = "<|start_header_id|>system<|end_header_id|>\n\n"
    bare = template.render([text_message(Role.USER, "?")]) if template else None
    given = template.render([text_message(Role.SYSTEM, "!?"), text_message(Role.USER, "?")]) if template else None
    if bare is None or given is None or opening not in bare:
        return None
    return given.partition(opening)[2].partition("!?")[0]


def _head(messages: Sequence[Message], tools: Sequence[ToolSpec], preamble: str | None, *, native: bool) -> Head:
    given = bool(messages) and messages[0].role is Role.SYSTEM
    system = messages[0].text.strip() if given else ""
    rest = list(messages[1:] if given else messages)
    if tools and native:
        listed = "".join(f"{json.dumps(as_function(tool), ensure_ascii=False, indent=4)}\n\n" for tool in tools)
        asked = bool(rest) and rest[0].role is Role.USER
        first = text_message(Role.USER, f"{_TOOL_SECTION}{listed}{rest[0].text.strip() if asked else ''}")
        rest = [first, *(rest[1:] if asked else rest)]
    elif tools:
        system = "\n\n".join(text for text in (system, tool_instructions(tools)) if text)
    if preamble is None and not system and not given:
        return Head([BEGIN], rest)
    before = ("Environment: ipython\n" if tools and native else "") + (preamble or "")
    return Head([BEGIN, *_opening("system"), before + system, END], rest)


def _body(message: Message) -> list[Piece]:
    pieces: list[str] = []
    for part in message.parts:
        match part:
            case Text():
                pieces.append(part.text.strip())
            case ToolCall():
                pieces.append(("\n" if any(pieces) else "") + call_text(part, "parameters"))
            case ToolResult():
                pieces.append(json.dumps(part.text, ensure_ascii=False))
            case _:
                pass  # reasoning, which the family has no format for; images were refused before
    return ["".join(pieces)]


def _read(pieces: Sequence[Piece], prefix: str) -> list[Part]:
    text = pieces_text([piece for piece in pieces if piece != PYTHON])
    begin = _CALL.search(text[:MAX_TEXT])
    if begin is None:
        found = parse_calls(text, prefix)
        return [*([Text(found.text)] if found.text else []), *found.calls]
    before = text[: begin.start()].strip()
    return [*([Text(before)] if before else []), *_calls(text[begin.start() :], prefix)]


def _calls(text: str, prefix: str) -> list[Part]:
    """Parse consecutive JSON objects; the rest that cannot be parsed is one malformed call."""
    calls: list[Part] = []
    at = 0
    while at < len(text) and len(calls) < MAX_OPENINGS:
        value, end = _object_at(text, at)
        if value is None:
            break
        calls.append(_call(f"{prefix}_{len(calls)}", value, text[at:end]))
        at = end + len(text[end:]) - len(text[end:].lstrip(" \t\r\n;"))
    if text[at:].strip():
        calls.append(malformed_call(f"{prefix}_{len(calls)}", "unreadable", text[at:].strip()))
    return calls


def _object_at(text: str, at: int) -> tuple[Json | None, int]:
    begin = at + len(text[at:]) - len(text[at:].lstrip())
    try:
        value, end = JSONDecoder(strict=False).raw_decode(text, begin)
    except (JSONDecodeError, ValueError, RecursionError):
        return None, at
    return (cast("Json", value), end) if isinstance(value, dict) else (None, at)


def _call(call_id: str, value: Json, source: str) -> ToolCall:
    name: Any = value.get("name")
    arguments: Any = value.get("parameters", value.get("arguments", {}))
    if (
        isinstance(name, str)
        and isinstance(arguments, dict)
        and len(source) <= MAX_CHARS
        and is_storable(cast("Json", arguments))
    ):
        return ToolCall(call_id, short_name(name), cast("Json", arguments))
    return malformed_call(call_id, name if isinstance(name, str) else "unreadable", source)
