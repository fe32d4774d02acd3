"""A conversation as plain text, safe to print."""

from collections.abc import Sequence

import msgspec

from sandlot.core.images import image_line
from sandlot.core.limits import Limits
from sandlot.core.ports.world import ToolSpec
from sandlot.core.text import one_line, printable
from sandlot.core.trace import ImagePart, Message, Reasoning, Text, ToolCall, ToolResult
from sandlot.core.types import End


def transcript_text(
    messages: Sequence[Message], tools: Sequence[ToolSpec], num_turns: int, limits: Limits, end: End | None
) -> str:
    """The conversation, the tools, and the turns used."""
    lines = [line for message in messages for line in message_lines(message)]
    if tools:
        lines += ["", "tools: " + ", ".join(tool.name for tool in tools)]
    lines.append(f"turn {num_turns} of {limits.turns}" + (f", ended: {end}" if end else ""))
    return "\n".join(lines)


def message_lines(message: Message) -> list[str]:
    """One message, one line per part. Further lines of a text are indented, so that no text can look like another part."""
    lines: list[str] = []
    for part in message.parts:
        if isinstance(part, Text):
            lines.append(f"{message.role}: {_indented(part.text)}")
        elif isinstance(part, Reasoning):
            lines.append(f"{message.role} (thinking): {_indented(part.text)}")
        elif isinstance(part, ToolCall):
            arguments = part.malformed or msgspec.json.encode(part.arguments).decode()
            lines.append(f"-> {one_line(part.name, 200)}({_indented(arguments)})")
        elif isinstance(part, ToolResult):
            lines.append(f"<- {'error: ' if part.error else ''}{_indented(part.text)}")
            lines += [f"<- {_image(image)}" for image in part.images]
        elif isinstance(part, ImagePart):
            lines.append(f"{message.role}: {_image(part)}")
        else:
            lines.append(f"{message.role}: [{type(part).__name__.lower()} {part.artifact[:12]}]")
    return lines


def _image(image: ImagePart) -> str:
    return printable(f"{image_line(image)} {image.artifact[:12]}")


def _indented(text: str) -> str:
    return printable(text).replace("\n", "\n   ")
