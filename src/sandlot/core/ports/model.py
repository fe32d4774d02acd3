"""The interfaces of models and renderers."""

from collections.abc import Sequence
from typing import Protocol

import msgspec

from sandlot.core.ports.world import ToolSpec
from sandlot.core.trace import Message, Part, TurnReplica, Usage


class Sampling(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How turns are sampled; stored with the run."""

    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0
    """Sample only from this many of the likeliest tokens; 0 for all."""
    max_tokens: int | None = None
    """Maximum tokens per turn; None leaves it to the endpoint."""
    stop: tuple[str, ...] = ()
    """Strings that end a turn. The string stays in the turn, since it was sampled."""
    seed: int | None = None


class Reply(msgspec.Struct, frozen=True, kw_only=True):
    """A chat endpoint's reply."""

    parts: tuple[Part, ...]
    usage: Usage = Usage()
    stop: str = "stop"
    replica: TurnReplica | None = None
    """The server that replied, if the model has several."""


class ChatModel(Protocol):
    """A model that takes messages. Its traces have no token ids."""

    @property
    def name(self) -> str:
        """The name as given, without secrets."""
        ...

    async def chat(self, messages: Sequence[Message], tools: Sequence[ToolSpec], sampling: Sampling) -> Reply:
        """One reply; `ModelError` if it fails."""
        ...


class Sampled(msgspec.Struct, frozen=True, kw_only=True):
    """Tokens that an engine sampled, as little-endian bytes."""

    ids: bytes
    """int32; includes a sampled stop token."""
    logprobs: bytes
    """float32, of the distribution that was sampled from: after temperature, top-k and top-p."""
    versions: tuple[tuple[int, int], ...]
    """Runs of (count, weight version) over the ids."""
    stop: str
    """`stop` (a stop token or text) or `length`."""
    cached: int = 0
    """Prompt tokens that were found in the prefix cache."""
    dtype: str | None = None
    """The number type the model computed in, such as `float32`; None if the engine does not report it."""
    replica: TurnReplica | None = None
    """The server that sampled them, if the model has several."""


class TokenModel(Protocol):
    """A model that takes token ids."""

    @property
    def name(self) -> str:
        """The name as given, without secrets."""
        ...

    @property
    def context(self) -> int:
        """The context length: prompt and completion together."""
        ...

    async def sample(self, ids: Sequence[int], sampling: Sampling, *, stop_ids: Sequence[int] = (), session: str = "") -> Sampled:
        """Continue exactly these ids. Cancelling frees its memory. `ModelError` of kind `context` if the prompt is too long.

        `session` names the rollout: its computed prefix is kept in preference to others until `release`.
        """
        ...

    async def release(self, session: str) -> None:
        """The rollout has ended; its prefix need not be kept."""
        ...


class Renderer(Protocol):
    """Converts messages to token ids and back, for one model family."""

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
        """A sampled completion as a message; call ids begin with `prefix`."""
        ...

    def bridge(self, ids: Sequence[int], messages: Sequence[Message]) -> list[int] | None:
        """The ids to append to `ids`, which end with a sampled turn, for `messages` and the opening of the assistant's turn.

        History is not rendered again. None if the family cannot do this.
        """
        ...
