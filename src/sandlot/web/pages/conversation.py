"""The messages of a trace as people read them at the desk: short enough to load at once, tool calls and results as text."""

from typing import Any

import msgspec

from sandlot.core.text import printable
from sandlot.core.trace import Message, Node, Reasoning, Text, ToolCall, ToolResult, Trace

_CUT = 3_000
"""Characters of one part that are shown; the page of the trace has all."""
_MESSAGES = 300
"""Messages that are shown: the first and last halves of these."""


def read_conversation(trace: Trace) -> list[dict[str, Any]]:
    """The messages of a trace; the middle of a long one is one entry that says how many are left out."""
    count, half = len(trace.nodes), _MESSAGES // 2
    if count <= _MESSAGES:
        return [_entry(number, node) for number, node in enumerate(trace.nodes)]
    first = [_entry(number, trace.nodes[number]) for number in range(half)]
    last = [_entry(number, trace.nodes[number]) for number in range(count - half, count)]
    return [*first, {"left_out": count - 2 * half}, *last]


def _entry(number: int, node: Node) -> dict[str, Any]:
    return {"left_out": 0, "number": number, "role": str(node.message.role), "parts": _parts(node.message)}


def _parts(message: Message) -> list[dict[str, Any]]:
    return [
        {"kind": kind, "text": printable(text, _CUT), "more": max(0, len(text) - _CUT)} for kind, text in _texts(message) if text
    ]


def _texts(message: Message) -> list[tuple[str, str]]:
    """The kind and the text of each part."""
    found: list[tuple[str, str]] = []
    for part in message.parts:
        if isinstance(part, Text):
            found.append(("text", part.text))
        elif isinstance(part, Reasoning):
            found.append(("reasoning", part.text))
        elif isinstance(part, ToolCall):
            arguments = part.malformed or msgspec.json.format(msgspec.json.encode(part.arguments), indent=1).decode()
            found.append(("call", f"{part.name} {arguments}"))
        elif isinstance(part, ToolResult):
            found.append(("error" if part.error else "result", part.text))
        else:
            found.append(("artifact", f"{type(part).__name__.lower()} {part.artifact[:12]}"))
    return found
