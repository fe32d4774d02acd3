"""The messages of a trace as they are shown: cut at first, the rest of a text on demand."""

import os
from collections.abc import Iterator
from typing import Any

import msgspec

from sandlot.core.errors import ConfigError
from sandlot.core.images import image_line
from sandlot.core.text import printable
from sandlot.core.tokens import path_indices
from sandlot.core.trace import ImagePart, Message, Node, Part, Reasoning, Text, ToolCall, ToolResult, Trace
from sandlot.core.types import Role
from sandlot.run.results import Run
from sandlot.web.site import Asked

_CUT = 4_000
"""Characters of a text that are shown at first."""
_SLICE = 200_000
"""Characters that are sent at a time when more of a text is asked for."""
_WINDOW = 200
"""Messages that are shown at a time."""
_SHORT = 600
"""A call or result of at most this many characters is shown unfolded."""


def open_trace(asked: Asked) -> tuple[Run, Trace]:
    """The run and the trace that are asked for."""
    run = asked.opened
    return run, run.trace(asked.query.get("task", ""), asked.number("rollout"))


def place_of(run: Run, trace: Trace) -> str:
    """The rollout as commands name it, from where this process was started."""
    return f"{os.path.relpath(run.path)}/{trace.task}/{trace.rollout}"


def show_messages(trace: Trace, start: int | None, *, most: int = _WINDOW) -> list[dict[str, Any]]:
    """The messages from `start`; without one, the first and the last. Where some are left out, an entry says which."""
    count = len(trace.nodes)
    if start is None:
        kept = [number for number in range(count) if number < most // 2 or number >= count - most // 2]
    else:
        kept = list(range(min(start, count), min(start + most, count)))
    path = set(path_indices(trace))
    turns = _turn_numbers(trace)
    shown: list[dict[str, Any]] = []
    before = -1
    for number in kept:
        if number > before + 1:
            shown.append(_gap(before + 1, number))
        shown.append(_shown(trace.nodes[number], number, turns.get(number), on_path=number in path))
        before = number
    if before + 1 < count:
        shown.append(_gap(before + 1, count))
    return shown


def _gap(first: int, end: int) -> dict[str, Any]:
    return {"gap": end - first, "first": first, "end": end, "back": max(first, end - _WINDOW)}


def _turn_numbers(trace: Trace) -> dict[int, int]:
    """For each message of the assistant on the last path, its turn, counted as `sandlot shell --turn` counts."""
    acted = [number for number in path_indices(trace) if trace.nodes[number].message.role is Role.ASSISTANT]
    return {number: turn for turn, number in enumerate(acted, 1)}


def _shown(node: Node, number: int, turn: int | None, *, on_path: bool) -> dict[str, Any]:
    parent = node.parent if node.parent is not None else -1
    return {
        "gap": 0,
        "number": number,
        "turn": turn,
        "role": str(node.message.role),
        "agent": "" if node.message.agent == "agent" else printable(node.message.agent, 60),
        "sampled": node.sampled,
        "seconds": node.seconds,
        "tokens": node.num_tokens,
        "has_tokens": node.tokens is not None and len(node.tokens) > 0,
        "stop": printable(node.stop or "", 60),
        "model": printable(node.model or "", 100),
        "parent": parent if parent != number - 1 else None,
        "on_path": on_path,
        "parts": [_part(part, place) for place, part in enumerate(node.message.parts)],
    }


def _part(part: Part, place: int) -> dict[str, Any]:
    kind, label, text = _content(part)
    more = max(0, len(text) - _CUT)
    whole = part.whole if isinstance(part, ToolResult) else None
    return {
        "place": place,
        "kind": kind,
        "label": label,
        "text": printable(text, _CUT),
        "more": more,
        "open": len(text) <= _SHORT,
        "size": len(text),
        "whole": whole,
        "images": [{"id": image.artifact, "alt": _told(image)} for image in _images(part)],
    }


def _content(part: Part) -> tuple[str, str, str]:
    """The kind, the heading and the text of a part."""
    match part:
        case Text():
            return "text", "", part.text
        case Reasoning():
            return "reasoning", "reasoning", part.text
        case ToolCall():
            return "call", printable(part.name, 200), _arguments(part)
        case ToolResult():
            return ("error", "error", part.text) if part.error else ("result", "result", part.text)
        case ImagePart():
            return "image", printable(part.media_type, 60), ""
        case _:
            return "tensor", f"{printable(part.dtype, 30)} array, shape {part.shape}", part.artifact


def _arguments(call: ToolCall) -> str:
    """The arguments as people read them: the text of a lone argument, else JSON."""
    if call.malformed is not None:
        return call.malformed
    if len(call.arguments) == 1:
        (value,) = call.arguments.values()
        if isinstance(value, str):
            return value
    return msgspec.json.format(msgspec.json.encode(call.arguments), indent=2).decode()


def _images(part: Part) -> Iterator[ImagePart]:
    if isinstance(part, ImagePart):
        yield part
    elif isinstance(part, ToolResult):
        yield from part.images


def _told(image: ImagePart) -> str:
    return printable(image_line(image)[1:-1], 400)


def frames_of(trace: Trace) -> list[dict[str, Any]]:
    """Every image of a trace, in order, with its message."""
    return [
        {"message": number, "id": image.artifact, "alt": _told(image)}
        for number, node in enumerate(trace.nodes)
        for part in node.message.parts
        for image in _images(part)
    ]


def text_slice(asked: Asked) -> dict[str, Any]:
    """A piece of the text of a part, from the character that `from` asks for, and where the next one begins."""
    _, trace = open_trace(asked)
    message = _message_at(trace, asked.number("message"))
    place, start = asked.number("part"), asked.number("from")
    if place >= len(message.parts):
        raise ConfigError(f"message {asked.number('message')} has {len(message.parts)} parts; there is no part {place}")
    _, _, text = _content(message.parts[place])
    end = min(start + _SLICE, len(text))
    return {"text": printable(text[start:end]), "next": end if end < len(text) else None, "size": len(text)}


def _message_at(trace: Trace, number: int) -> Message:
    if number >= len(trace.nodes):
        raise ConfigError(f"the trace has {len(trace.nodes)} messages; there is no message {number}")
    return trace.nodes[number].message
