"""A model family: how turns open and end, how tools, calls and results are written, and how a sampled turn is parsed.

A family is data and three functions over pieces; it never sees token ids. `renderer.py` makes a `ports.Renderer` of it. The
supported families are in `families/`.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from sandlot.core.errors import ModelError
from sandlot.core.ports.world import ToolSpec
from sandlot.core.trace import ImagePart, Message, Part, Tensor, ToolCall, ToolResult
from sandlot.core.types import Role
from sandlot.model.render.tokenizer import CUT, ControlToken, Piece


class Head(NamedTuple):
    """The beginning of a prompt as pieces, and the messages that follow it."""

    pieces: list[Piece]
    messages: list[Message]


@dataclass(frozen=True, slots=True)
class Family:
    """The chat format of one model family."""

    name: str
    openings: Mapping[Role, tuple[Piece, ...]]
    """The pieces before a turn of each role. Sampling begins after the assistant's."""
    end: ControlToken
    """The end of a turn; the model samples it at the end of its own turns."""
    head: Callable[[Sequence[Message], Sequence[ToolSpec]], Head]
    """Writes the tools and anything else before the first message."""
    body: Callable[[Message], list[Piece]]
    """Writes a message without its opening and end."""
    read: Callable[[Sequence[Piece], str], list[Part]]
    """Parses a sampled turn without its end; call ids begin with the given prefix. The inverse of `body`."""
    other_ends: tuple[str, ...] = ()
    """Further control tokens that end a turn; kept if the model sampled one."""
    after_end: str = ""
    """Text between a turn's end and the next opening. It is never sampled."""
    joined_results: bool = False
    """True if adjacent tool results share one turn."""
    marks: tuple[str, ...] = ()
    """Further control tokens that the family needs."""

    @property
    def required(self) -> set[str]:
        """The control tokens that a tokenizer must have."""
        opening = {piece.text for pieces in self.openings.values() for piece in pieces if isinstance(piece, ControlToken)}
        return opening | {self.end.text} | set(self.marks)


def turn_pieces(family: Family, messages: Sequence[Message]) -> list[Piece]:
    """Messages as complete turns, each with its opening, end and separator."""
    pieces: list[Piece] = []
    for role, bodies in _turns(family, messages):
        pieces += family.openings[role]
        if role is Role.ASSISTANT:
            pieces.append(CUT)
        for body in bodies:
            pieces += body
        pieces += (family.end, family.after_end)
    return pieces


def _turns(family: Family, messages: Sequence[Message]) -> list[tuple[Role, list[list[Piece]]]]:
    turns: list[tuple[Role, list[list[Piece]]]] = []
    for message in messages:
        refuse_images(message)
        joined = family.joined_results and message.role is Role.TOOL
        for piece in _split_results(message):
            body = family.body(piece)
            if joined and turns and turns[-1][0] is Role.TOOL:
                turns[-1][1].append(body)
            else:
                turns.append((message.role, [body]))
    return turns


def _split_results(message: Message) -> list[Message]:
    """One message per tool result; other messages unchanged."""
    if message.role is not Role.TOOL or len(message.results) < 2:
        return [message]
    return [Message(role=Role.TOOL, parts=(part,), agent=message.agent) for part in message.parts if isinstance(part, ToolResult)]


def call_text(call: ToolCall, arguments: str) -> str:
    """A call as JSON, with its arguments under this key; a malformed one as it was written."""
    if call.malformed is not None:
        return call.malformed
    return json.dumps({"name": call.name, arguments: call.arguments}, ensure_ascii=False)


def refuse_images(message: Message) -> None:
    """Raise if a message holds an image: all families are text only."""
    for part in message.parts:
        if isinstance(part, ImagePart | Tensor) or (isinstance(part, ToolResult) and part.images):
            raise ModelError(f"a {message.role} message holds an image or tensor; this model takes text only", kind="unsupported")


def pieces_text(pieces: Sequence[Piece]) -> str:
    """Pieces as text, control tokens by their names."""
    return "".join(piece if isinstance(piece, str) else piece.text for piece in pieces)
