"""`ports.Renderer` over a family and a tokenizer.

The whole render and the road a rollout takes (render, then a turn, then a bridge, ...) give the same ids: a model's own tokens
are encoded apart from what stands before them, as when it sampled them. Demonstrations for training take the same road.
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
    """A whole conversation as it would be trained on."""

    ids: list[int]
    mask: list[int]
    """1 for what the assistant says, the end of its turn included."""


@dataclass(frozen=True, slots=True)
class TokenRenderer:
    """One family, one tokenizer."""

    family: Family
    tokenizer: Tokenizer
    stop_ids: tuple[int, ...]
    name: str

    def render(self, messages: Sequence[Message], tools: Sequence[ToolSpec]) -> list[int]:
        """The whole prompt, up to where the assistant's own tokens begin."""
        family = self.family
        head = family.head(messages, tools)
        return self.tokenizer.encode([*head.pieces, *turn_pieces(family, head.messages), *family.openings[Role.ASSISTANT]])

    def turn(self, message: Message) -> list[int]:
        """The ids an assistant would have sampled to say this, its end included."""
        refuse_images(message)
        return self.tokenizer.encode([*self.family.body(message), self.family.end])

    def bridge(self, ids: Sequence[int], messages: Sequence[Message]) -> list[int] | None:
        """What to append to `ids`, which end with a sampled turn, so that `messages` and the assistant's opening follow.

        A turn that was cut off is closed here: its end was never sampled, and is context.
        """
        if not ids or any(message.role is Role.SYSTEM for message in messages):
            return None  # a system message belongs to the head, which is history
        family = self.family
        pieces: list[Piece] = [] if self._closed(ids[-1]) else [family.end]
        return self.tokenizer.encode(
            [*pieces, family.after_end, *turn_pieces(family, messages), *family.openings[Role.ASSISTANT]]
        )

    def parse(self, ids: Sequence[int], prefix: str = "call") -> Message:
        """A sampled completion as a message; its calls are numbered after `prefix`."""
        spoken = list(ids)
        while spoken and spoken[-1] in self.stop_ids:
            spoken.pop()
        return Message(role=Role.ASSISTANT, parts=tuple(self.family.read(self.tokenizer.pieces(spoken), prefix)))

    def demonstration(self, messages: Sequence[Message], tools: Sequence[ToolSpec]) -> Demonstration:
        """A conversation that ends with an assistant's turn, in the ids and at the places where a policy would meet it."""
        if not messages or messages[-1].role is not Role.ASSISTANT:
            raise ModelError("a demonstration ends with an assistant's turn", kind="unsupported")
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
                    raise ModelError(
                        "a system message stands behind an assistant's turn; there is no way to append one", kind="unsupported"
                    )
                ids += given
                mask += [0] * len(given)
        return Demonstration(ids, mask)

    def _closed(self, token: int) -> bool:
        ends = (self.family.end, *map(ControlToken, self.family.other_ends))
        return any(self.tokenizer.control.get(end.text) == token for end in ends)
