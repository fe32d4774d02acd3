"""What a run may cost: caps in tokens and money over everything its models do.

Prices come from the user; there is no price list here to be out of date. A turn is admitted while what was spent and what is in
flight stay below the cap, and reserves an estimate until its real usage is known: so many requests at once overshoot by no more
than what they themselves turn out to cost above their estimates, plus one turn.
"""

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import msgspec

from sandlot.core.errors import ConfigError, ModelError
from sandlot.core.ports.model import ChatModel, Reply, Sampled, Sampling, TokenModel
from sandlot.core.ports.world import ToolSpec
from sandlot.core.trace import Message, Reasoning, Text, ToolCall, ToolResult, Usage

_CHARS_PER_TOKEN = 4
_GUESSED_COMPLETION = 512
"""Tokens a turn is thought to sample while nothing better is known."""


class Prices(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """US dollars for a million tokens."""

    prompt: float
    completion: float
    cached: float | None = None
    """Prompt tokens the endpoint had in its cache; None: as the others."""

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            value = getattr(self, name)
            if value is not None and not 0 <= value < float("inf"):
                raise ConfigError(f"price `{name}` is {value!r}; give US dollars for a million tokens, 0 or more")

    def usd(self, usage: Usage) -> float:
        """What it cost."""
        cached = min(usage.cached_tokens, usage.prompt_tokens)
        cached_price = self.prompt if self.cached is None else self.cached
        fresh = usage.prompt_tokens - cached
        return (fresh * self.prompt + cached * cached_price + usage.completion_tokens * self.completion) / 1e6


class SpendCaps(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where spending ends; None for no cap."""

    tokens: int | None = None
    usd: float | None = None

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            value = getattr(self, name)
            if value is not None and not 0 <= value < float("inf"):
                raise ConfigError(f"spend cap `{name}` is {value!r}; give a number, 0 or more")


class Spend:
    """The purse of one run, shared by all of its models. A resumed run starts with what was spent before."""

    def __init__(self, caps: SpendCaps | None = None, spent: Usage | None = None) -> None:
        self.caps = caps or SpendCaps()
        self.spent = spent or Usage()
        self.turns = 0
        self.guessed_turns = 0
        """Turns whose endpoint counted nothing: their estimate was charged instead."""
        self._in_flight_tokens = 0
        self._in_flight_usd = 0.0

    @property
    def tokens(self) -> int:
        """Spent so far, prompt and completion together."""
        return self.spent.prompt_tokens + self.spent.completion_tokens

    def estimate_completion(self, max_tokens: int | None) -> int:
        """What a turn will probably sample: the mean so far, at most its own cap."""
        mean = self.spent.completion_tokens // self.turns if self.turns else _GUESSED_COMPLETION
        return mean if max_tokens is None else min(mean, max_tokens)

    @contextmanager
    def reserve(self, estimate: Usage) -> Generator["Bill"]:
        """Room for one turn while it runs; `ModelError(kind="spend")` if there is none. A turn that fails is not charged."""
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


class Bill:
    """What one turn costs: the estimate until it is settled."""

    def __init__(self, estimate: Usage) -> None:
        self.usage = estimate
        self.guessed = True

    def settle(self, usage: Usage) -> None:
        """The endpoint's own count."""
        self.usage = usage
        self.guessed = False


@dataclass(frozen=True, slots=True)
class _CappedChat:
    """`ports.ChatModel` that pays for every turn."""

    model: ChatModel
    spend: Spend
    prices: Prices | None

    @property
    def name(self) -> str:
        """The model's."""
        return self.model.name

    async def chat(self, messages: Sequence[Message], tools: Sequence[ToolSpec], sampling: Sampling) -> Reply:
        """One reply with its price; `ModelError(kind="spend")` once the cap is reached."""
        estimate = self._priced(
            Usage(
                prompt_tokens=sum(_num_chars(message) for message in messages) // _CHARS_PER_TOKEN + 1,
                completion_tokens=self.spend.estimate_completion(sampling.max_tokens),
            )
        )
        with self.spend.reserve(estimate) as bill:
            reply = await self.model.chat(messages, tools, sampling)
            if not reply.usage.prompt_tokens and not reply.usage.completion_tokens:
                return reply
            usage = self._priced(reply.usage)
            bill.settle(usage)
        return msgspec.structs.replace(reply, usage=usage)

    def _priced(self, usage: Usage) -> Usage:
        return usage if self.prices is None else msgspec.structs.replace(usage, usd=self.prices.usd(usage))


def capped_chat(model: ChatModel, spend: Spend, prices: Prices | None = None) -> ChatModel:
    """The model, paying from `spend`. A cap in money needs prices."""
    if spend.caps.usd is not None and prices is None:
        raise ConfigError(
            f"a spend cap in USD needs the prices of `{model.name}`: give USD for a million prompt and completion tokens"
        )
    return _CappedChat(model, spend, prices)


@dataclass(frozen=True, slots=True)
class _CappedTokens:
    """`ports.TokenModel` that counts every turn against a cap on tokens; a model of one's own has no price."""

    model: TokenModel
    spend: Spend

    @property
    def name(self) -> str:
        """The model's."""
        return self.model.name

    @property
    def context(self) -> int:
        """The model's."""
        return self.model.context

    async def sample(self, ids: Sequence[int], sampling: Sampling, *, stop_ids: Sequence[int] = (), session: str = "") -> Sampled:
        """One completion; `ModelError(kind="spend")` once the cap is reached."""
        guess = self.spend.estimate_completion(sampling.max_tokens)
        with self.spend.reserve(Usage(prompt_tokens=len(ids), completion_tokens=guess)) as bill:
            sampled = await self.model.sample(ids, sampling, stop_ids=stop_ids, session=session)
            num = len(sampled.ids) // 4
            bill.settle(Usage(prompt_tokens=len(ids), completion_tokens=num, cached_tokens=sampled.cached))
        return sampled

    async def release(self, session: str) -> None:
        """The rollout is over."""
        await self.model.release(session)


def capped_tokens(model: TokenModel, spend: Spend) -> TokenModel:
    """The model, counted against the cap on tokens of `spend`."""
    if spend.caps.usd is not None:
        raise ConfigError(f"`{model.name}` has no price, so there is no cap in USD; cap its tokens: `--max-total-tokens`")
    return _CappedTokens(model, spend)


def _num_chars(message: Message) -> int:
    total = 0
    for part in message.parts:
        match part:
            case Text() | ToolResult() | Reasoning():
                total += len(part.text)
            case ToolCall():
                total += len(part.name) + (len(part.malformed) if part.malformed else len(msgspec.json.encode(part.arguments)))
            case _:
                pass
    return total
