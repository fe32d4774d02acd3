"""What a model and a renderer must do."""

from collections.abc import Sequence
from typing import Protocol

import msgspec

from sandlot.core.ports.world import ToolSpec
from sandlot.core.trace import Message, Part, Usage


class Sampling(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How turns are sampled; stored with the run."""

    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0
    """How many of the likeliest tokens stay in play; 0 for all."""
    max_tokens: int | None = None
    """A turn's own cap; None leaves it to the endpoint."""
    stop: tuple[str, ...] = ()
    """Texts that end a turn; the one that did stays in it, since it was sampled."""
    seed: int | None = None


class Reply(msgspec.Struct, frozen=True, kw_only=True):
    """What a chat endpoint answered."""

    parts: tuple[Part, ...]
    usage: Usage = Usage()
    stop: str = "stop"


class ChatModel(Protocol):
    """A model behind messages. Its traces have no token ids, and say so."""

    @property
    def name(self) -> str:
        """As the user wrote it, without secrets."""
        ...

    async def chat(self, messages: Sequence[Message], tools: Sequence[ToolSpec], sampling: Sampling) -> Reply:
        """One reply; `ModelError` with a kind if there is none."""
        ...


class Sampled(msgspec.Struct, frozen=True, kw_only=True):
    """Tokens an engine sampled, in little-endian bytes."""

    ids: bytes
    """int32; a stop token that was sampled is one of them."""
    logprobs: bytes
    """float32, of the distribution actually sampled from: after temperature, top-k and top-p."""
    versions: tuple[tuple[int, int], ...]
    """Runs of (count, weight version) over the ids."""
    stop: str
    """`stop` (a stop token or text) or `length`."""
    cached: int = 0
    """Tokens of the prompt that were found in the prefix tree."""
    dtype: str | None = None
    """The number type the model computed in, such as `float32`; None where the engine does not tell."""


class TokenModel(Protocol):
    """A model behind token ids."""

    @property
    def name(self) -> str:
        """As the user wrote it, without secrets."""
        ...

    @property
    def context(self) -> int:
        """Tokens it takes in all, prompt and completion."""
        ...

    async def sample(self, ids: Sequence[int], sampling: Sampling, *, stop_ids: Sequence[int] = (), session: str = "") -> Sampled:
        """Continue exactly these ids; cancelling it frees what it held. A prompt that is too long is `ModelError("context")`.

        `session` names the rollout: what it has computed is kept with preference until `release`.
        """
        ...

    async def release(self, session: str) -> None:
        """The rollout is over; nothing of it needs to be kept."""
        ...


class Renderer(Protocol):
    """Messages to ids and back, for one model family."""

    @property
    def name(self) -> str:
        """Family and tokenizer digest; part of the setting's fingerprint."""
        ...

    @property
    def stop_ids(self) -> Sequence[int]:
        """Tokens that end a turn."""
        ...

    def render(self, messages: Sequence[Message], tools: Sequence[ToolSpec]) -> list[int]:
        """The whole prompt, up to where the assistant's own tokens begin."""
        ...

    def parse(self, ids: Sequence[int], prefix: str = "call") -> Message:
        """A sampled completion as a message; its calls are numbered after `prefix`."""
        ...

    def bridge(self, ids: Sequence[int], messages: Sequence[Message]) -> list[int] | None:
        """What to append to `ids`, which end with a sampled turn, so that `messages` and the assistant's opening follow.

        Never re-renders history. None if it cannot.
        """
        ...
