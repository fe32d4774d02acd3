"""Spend caps of a run, in tokens and US dollars, over all of its models.

Prices come from the user. A turn starts while the amount spent plus the estimates of running turns is below the cap; its own
estimate is reserved until its usage is known. So concurrent turns exceed the cap at most by their errors of estimation plus one
turn.
"""

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import msgspec

from sandlot.core.errors import ConfigError, ModelError
from sandlot.core.ports.model import ChatModel, Reply, Sampled, Sampling, TokenModel
from sandlot.core.ports.world import ToolSpec
from sandlot.core.trace import ImagePart, Message, Reasoning, Text, ToolCall, ToolResult, Usage
from sandlot.model.wire.server_load import LoadOf, load_of

_CHARS_PER_TOKEN = 4
_CHARS_PER_IMAGE = 6000
"""An image is estimated as 1,500 tokens."""
_GUESSED_COMPLETION = 512
"""Estimated completion tokens of the first turn."""


class Prices(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Prices in US dollars per million tokens."""

    prompt: float
    completion: float
    cached: float | None = None
    """Price of cached prompt tokens; None: the prompt price."""

    def __post_init__(self) -> None:
        _require_amounts(self, "price", "US dollars per million tokens")

    def usd(self, usage: Usage) -> float:
        """The cost of a turn."""
        cached = min(usage.cached_tokens, usage.prompt_tokens)
        cached_price = self.prompt if self.cached is None else self.cached
        fresh = usage.prompt_tokens - cached
        return (fresh * self.prompt + cached * cached_price + usage.completion_tokens * self.completion) / 1e6


class SpendCaps(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Caps on spending; None for no cap."""

    tokens: int | None = None
    usd: float | None = None

    def __post_init__(self) -> None:
        _require_amounts(self, "spend cap", "a number")


def _require_amounts(amounts: msgspec.Struct, what: str, unit: str) -> None:
    for name, value in msgspec.structs.asdict(amounts).items():
        if value is not None and not 0 <= value < float("inf"):
            raise ConfigError(f"{what} `{name}` is {value!r}; give {unit}, 0 or more")


class Spend:
    """The spending of one run, shared by all of its models. A resumed run starts with the amount already spent."""

    def __init__(self, caps: SpendCaps | None = None, spent: Usage | None = None) -> None:
        self.caps = caps or SpendCaps()
        self.spent = spent or Usage()
        self.turns = 0
        self.guessed_turns = 0
        """Turns without token counts from the endpoint; their estimate was charged."""
        self._in_flight_tokens = 0
        self._in_flight_usd = 0.0

    @property
    def tokens(self) -> int:
        """Tokens spent so far, prompt and completion."""
        return self.spent.prompt_tokens + self.spent.completion_tokens

    @property
    def is_capped(self) -> bool:
        """True if a turn may be refused; only then must its cost be estimated before it is taken."""
        return self.caps.tokens is not None or self.caps.usd is not None

    def estimate_completion(self, max_tokens: int | None) -> int:
        """Estimated completion tokens of a turn: the mean so far, at most `max_tokens`."""
        mean = self.spent.completion_tokens // self.turns if self.turns else _GUESSED_COMPLETION
        return mean if max_tokens is None else min(mean, max_tokens)

    @contextmanager
    def reserve(self, estimate: Usage) -> Generator["Bill"]:
        """Reserve an estimate for one turn; `ModelError(kind="spend")` if the cap is reached. A failed turn is not charged."""
        self._admit()
        tokens = estimate.prompt_tokens + estimate.completion_tokens
        self._in_flight_tokens += tokens
        self._in_flight_usd += estimate.usd
        bill = Bill(estimate)
        try:
            yield bill
        finally:
            self._in_flight_tokens -= tokens
            self._in_flight_usd -= estimate.usd
        self.charge(bill)

    def charge(self, bill: "Bill") -> None:
        """Count a turn that was taken."""
        self.turns += 1
        self.guessed_turns += bill.guessed
        self.spent = self.spent + bill.usage

    def _admit(self) -> None:
        caps = self.caps
        if caps.tokens is not None and self.tokens + self._in_flight_tokens >= caps.tokens:
            raise _cap_error(f"{caps.tokens} tokens", f"{self.tokens} spent, about {self._in_flight_tokens} in flight")
        if caps.usd is not None and self.spent.usd + self._in_flight_usd >= caps.usd:
            raise _cap_error(f"{caps.usd:g} USD", f"{self.spent.usd:.4f} spent, about {self._in_flight_usd:.4f} in flight")


def _cap_error(cap: str, spent: str) -> ModelError:
    return ModelError(
        f"the spend cap of {cap} is reached ({spent}); raise the cap and run the same command to continue", kind="spend"
    )


@dataclass(slots=True)
class Bill:
    """The charge for one turn: an estimate until it is settled."""

    usage: Usage
    guessed: bool = True

    def settle(self, usage: Usage) -> None:
        """Charge the usage that the endpoint reported."""
        self.usage = usage
        self.guessed = False


@dataclass(frozen=True, slots=True)
class _CappedChat:
    """`ports.ChatModel` that charges every turn to a `Spend`."""

    model: ChatModel
    spend: Spend
    prices: Prices | None

    @property
    def name(self) -> str:
        """As the model's."""
        return self.model.name

    async def chat(self, messages: Sequence[Message], tools: Sequence[ToolSpec], sampling: Sampling) -> Reply:
        """One reply with its cost; `ModelError(kind="spend")` once the cap is reached."""
        if self.spend.is_capped:
            return await self._chat_within_caps(messages, tools, sampling)
        reply = await self.model.chat(messages, tools, sampling)
        if _is_counted(reply):
            usage = self._priced(reply.usage)
            self.spend.charge(Bill(usage, guessed=False))
            return reply if usage is reply.usage else msgspec.structs.replace(reply, usage=usage)
        self.spend.charge(Bill(self._estimate(messages, sampling)))
        return reply

    async def _chat_within_caps(self, messages: Sequence[Message], tools: Sequence[ToolSpec], sampling: Sampling) -> Reply:
        with self.spend.reserve(self._estimate(messages, sampling)) as bill:
            reply = await self.model.chat(messages, tools, sampling)
            if not _is_counted(reply):
                return reply
            usage = self._priced(reply.usage)
            bill.settle(usage)
        return msgspec.structs.replace(reply, usage=usage)

    def _estimate(self, messages: Sequence[Message], sampling: Sampling) -> Usage:
        return self._priced(
            Usage(
                prompt_tokens=sum(map(_num_chars, messages)) // _CHARS_PER_TOKEN + 1,
                completion_tokens=self.spend.estimate_completion(sampling.max_tokens),
            )
        )

    def _priced(self, usage: Usage) -> Usage:
        return usage if self.prices is None else msgspec.structs.replace(usage, usd=self.prices.usd(usage))


def capped_chat(model: ChatModel, spend: Spend, prices: Prices | None = None) -> ChatModel:
    """The model with its turns charged to `spend`. A cap in USD needs prices."""
    if spend.caps.usd is not None and prices is None:
        raise ConfigError(
            f"a spend cap in USD needs the prices of `{model.name}`: give USD per million prompt and completion tokens"
        )
    return _CappedChat(model, spend, prices)


@dataclass(frozen=True, slots=True)
class _CappedTokens:
    """`ports.TokenModel` that charges its tokens to a `Spend`; a self-hosted model has no price."""

    model: TokenModel
    spend: Spend

    @property
    def name(self) -> str:
        """As the model's."""
        return self.model.name

    @property
    def context(self) -> int:
        """As the model's."""
        return self.model.context

    @property
    def server_load(self) -> LoadOf | None:
        """As the model's."""
        return load_of(self.model)

    async def sample(self, ids: Sequence[int], sampling: Sampling, *, stop_ids: Sequence[int] = (), session: str = "") -> Sampled:
        """One completion; `ModelError(kind="spend")` once the cap is reached."""
        guess = self.spend.estimate_completion(sampling.max_tokens)
        with self.spend.reserve(Usage(prompt_tokens=len(ids), completion_tokens=guess)) as bill:
            sampled = await self.model.sample(ids, sampling, stop_ids=stop_ids, session=session)
            num = len(sampled.ids) // 4
            bill.settle(Usage(prompt_tokens=len(ids), completion_tokens=num, cached_tokens=sampled.cached))
        return sampled

    async def release(self, session: str) -> None:
        """End the session of a rollout."""
        await self.model.release(session)


def capped_tokens(model: TokenModel, spend: Spend) -> TokenModel:
    """The model with its tokens charged to `spend`."""
    if spend.caps.usd is not None:
        raise ConfigError(f"`{model.name}` has no price, so a cap in USD cannot apply; cap its tokens: `--max-total-tokens`")
    return _CappedTokens(model, spend)


def _is_counted(reply: Reply) -> bool:
    """True if the endpoint said how many tokens it used."""
    return bool(reply.usage.prompt_tokens or reply.usage.completion_tokens)


def _num_chars(message: Message) -> int:
    total = 0
    for part in message.parts:
        match part:
            case Text() | ToolResult() | Reasoning():
                total += len(part.text) + _CHARS_PER_IMAGE * len(part.images if isinstance(part, ToolResult) else ())
            case ImagePart():
                total += _CHARS_PER_IMAGE
            case ToolCall():
                total += len(part.name) + (len(part.malformed) if part.malformed else len(msgspec.json.encode(part.arguments)))
            case _:
                pass
    return total
