"""What a model family is: how turns open and end, how tools are told, how calls and results are spelled, how they are read.

A family is data and three functions over pieces; it never sees a token id. `renderer.py` turns it into `ports.Renderer`, the
modules of `families/` are the families there are.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from sandlot.core.errors import ModelError
from sandlot.core.ports.world import ToolSpec
from sandlot.core.trace import ImagePart, Message, Part, Tensor, ToolResult
from sandlot.core.types import Role
from sandlot.model.render.tokenizer import CUT, ControlToken, Piece


class Head(NamedTuple):
    """How a conversation begins: pieces that are already spelled, and the messages that are still to follow."""

    pieces: list[Piece]
    messages: list[Message]


@dataclass(frozen=True, slots=True)
class Family:
    """One way of spelling conversations."""

    name: str
    openings: Mapping[Role, tuple[Piece, ...]]
    """What stands before a turn of each role. The assistant's is where sampling begins."""
    end: ControlToken
    """What ends a turn; the model samples it after its own."""
    head: Callable[[Sequence[Message], Sequence[ToolSpec]], Head]
    """Tells the tools, and whatever else the family says before the first message."""
    body: Callable[[Message], list[Piece]]
    """A message without its opening and end."""
    read: Callable[[Sequence[Piece], str], list[Part]]
    """A sampled turn, without its end, as parts; calls are numbered after the given prefix. Reads whatever `body` spells."""
    other_ends: tuple[str, ...] = ()
    """Control tokens that close a turn just as well, and are left standing when a model chose them."""
    after_end: str = ""
    """What the template puts between a turn's end and the next opening. Nobody samples it."""
    joined_results: bool = False
    """True if results that follow each other share one turn."""
    marks: tuple[str, ...] = ()
    """Further control tokens without which the family cannot be spoken."""

    @property
    def required(self) -> set[str]:
        """The control tokens a tokenizer must have."""
        opening = {piece.text for pieces in self.openings.values() for piece in pieces if isinstance(piece, ControlToken)}
        return opening | {self.end.text} | set(self.marks)


def turn_pieces(family: Family, messages: Sequence[Message]) -> list[Piece]:
    """Whole turns, each with its opening, end and separator."""
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
    """One message for each result; any other message as it is."""
    if message.role is not Role.TOOL or len(message.results) < 2:
        return [message]
    return [Message(role=Role.TOOL, parts=(part,), agent=message.agent) for part in message.parts if isinstance(part, ToolResult)]


def refuse_images(message: Message) -> None:
    """Text-only families say so, instead of leaving a picture out."""
    for part in message.parts:
        if isinstance(part, ImagePart | Tensor) or (isinstance(part, ToolResult) and part.images):
            raise ModelError(
                f"a {message.role} message holds an image or tensor, which this model has no tokens for", kind="unsupported"
            )


def pieces_text(pieces: Sequence[Piece]) -> str:
    """Pieces as text, marks by their names."""
    return "".join(piece if isinstance(piece, str) else piece.text for piece in pieces)
