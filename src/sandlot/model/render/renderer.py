"""`ports.Renderer` over a family and a tokenizer.

Rendering a whole conversation gives the same ids as a rollout does step by step (render, turn, bridge, ...): an assistant turn is
encoded separately from the text before it, as when it was sampled. Demonstrations are built by the same steps.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from sandlot.core.errors import ModelError
from sandlot.core.ports.world import ToolSpec
from sandlot.core.trace import Message
from sandlot.core.types import Role
from sandlot.model.render.family import Family, refuse_images, turn_pieces
from sandlot.model.render.tokenizer import ControlToken, Piece, Tokenizer


@dataclass(frozen=True, slots=True)
class Demonstration:
    """A conversation as token ids with a loss mask."""

    ids: list[int]
    mask: list[int]
    """1 for assistant tokens, including the end of a turn."""


@dataclass(frozen=True, slots=True)
class TokenRenderer:
    """A family with a tokenizer."""

    family: Family
    tokenizer: Tokenizer
    stop_ids: tuple[int, ...]
    name: str

    def render(self, messages: Sequence[Message], tools: Sequence[ToolSpec]) -> list[int]:
        """The whole prompt, including the assistant's opening."""
        family = self.family
        head = family.head(messages, tools)
        return self.tokenizer.encode([*head.pieces, *turn_pieces(family, head.messages), *family.openings[Role.ASSISTANT]])

    def turn(self, message: Message) -> list[int]:
        """The ids of an assistant turn, including its end."""
        refuse_images(message)
        return self.tokenizer.encode([*self.family.body(message), self.family.end])

    def bridge(self, ids: Sequence[int], messages: Sequence[Message]) -> list[int] | None:
        """The ids to append to `ids`, which end with a sampled turn, so that `messages` and the assistant's opening follow.

        A turn that was cut off is ended here; the end token is then context. None if there is a system message.
        """
        if not ids or any(message.role is Role.SYSTEM for message in messages):
            return None  # a system message belongs to the head, which is already rendered
        family = self.family
        pieces: list[Piece] = [] if self._closed(ids[-1]) else [family.end]
        return self.tokenizer.encode(
            [*pieces, family.after_end, *turn_pieces(family, messages), *family.openings[Role.ASSISTANT]]
        )

    def parse(self, ids: Sequence[int], prefix: str = "call") -> Message:
        """Parse a sampled completion; call ids begin with `prefix`."""
        body = list(ids)
        while body and body[-1] in self.stop_ids:
            body.pop()
        return Message(role=Role.ASSISTANT, parts=tuple(self.family.read(self.tokenizer.pieces(body), prefix)))

    def demonstration(self, messages: Sequence[Message], tools: Sequence[ToolSpec]) -> Demonstration:
        """A conversation that ends with an assistant turn, with the ids that a rollout would have."""
        if not messages or messages[-1].role is not Role.ASSISTANT:
            raise ModelError("a demonstration must end with an assistant turn", kind="unsupported")
        turns = [at for at, message in enumerate(messages) if message.role is Role.ASSISTANT]
        ids = self.render(messages[: turns[0]], tools)
        mask = [0] * len(ids)
        for at, following in zip(turns, [*turns[1:], None], strict=True):
            said = self.turn(messages[at])
            ids += said
            mask += [1] * len(said)
            if following is not None:
                given = self.bridge(ids, messages[at + 1 : following])
                if given is None:
                    raise ModelError("a system message follows an assistant turn; it cannot be appended", kind="unsupported")
                ids += given
                mask += [0] * len(given)
        return Demonstration(ids, mask)

    def _closed(self, token: int) -> bool:
        ends = (self.family.end, *map(ControlToken, self.family.other_ends))
        return any(self.tokenizer.control.get(end.text) == token for end in ends)
