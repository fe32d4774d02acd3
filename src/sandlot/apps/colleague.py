"""Colleagues: people of a world who answer messages. They say what they know only when they are asked for it.

One answers by script, from its `facts`; or a model plays it, from its `persona` (`@env.colleagues`, `--user MODEL`).
"""

import re
from datetime import datetime

import msgspec

from sandlot.core.errors import ConfigError
from sandlot.core.persona import Persona
from sandlot.core.types import Json

_MAX_TEXT = 20_000
"""Characters of a message that a colleague reads."""


class KnownFact(msgspec.Struct, frozen=True):
    """Something a colleague knows, and what must be asked to hear it."""

    asked: tuple[str, ...]
    """Words that the message must contain, each as alternatives: `("invoice|bill", "total|amount")`. A word also matches longer
    words that begin with it."""
    says: str

    def fits(self, text: str) -> bool:
        """True if the message asks for it."""
        return all(any(_contains(text, word) for word in words.split("|")) for words in self.asked)


class Colleague(msgspec.Struct, frozen=True, kw_only=True):
    """Someone who answers messages: `world.apps.colleagues.append(Colleague(...))`."""

    email: str
    """The identity, as in the apps."""
    facts: tuple[KnownFact, ...] = ()
    unsure: str = ""
    """The answer to a message that asks for nothing they know; empty for no answer."""
    minutes: float = 15.0
    """How long an answer takes, in world time."""
    apps: tuple[str, ...] = ("mail", "chat")
    """Where they answer."""
    persona: Persona | None = None
    """Who they are, for a model that plays them, instead of `facts` and `unsure`. Return them from `@env.colleagues`."""

    def __post_init__(self) -> None:
        if not self.email or not 0 <= self.minutes < float("inf"):
            raise ConfigError(
                f"colleague `{self.email}` answers after {self.minutes} minutes; give an address and a number from 0"
            )
        if self.persona is not None and (self.facts or self.unsure):
            raise ConfigError(
                f"colleague `{self.email}` has a persona and scripted answers; give what a model may say as `Persona(facts=...)`"
            )

    def answer(self, text: str) -> str:
        """What they say to a message; empty for nothing."""
        read = text[:_MAX_TEXT]
        return "\n\n".join(fact.says for fact in self.facts if fact.fits(read)) or self.unsure


class SentMessage(msgspec.Struct, frozen=True, kw_only=True):
    """A message that was sent, as colleagues see it."""

    sender: str
    to: tuple[str, ...]
    text: str
    about: Json
    """What the app needs to answer in the right place: a thread, a channel."""


class UnansweredMessage(msgspec.Struct, frozen=True, kw_only=True):
    """A message to a colleague whom a model plays."""

    colleague: Colleague
    sent: SentMessage
    app: str
    reply: str
    """The event of the app that brings the answer."""
    at: datetime
    """When it was sent, in world time."""


def _contains(text: str, word: str) -> bool:
    return re.search(rf"(?<!\w){re.escape(word.strip())}", text, re.IGNORECASE) is not None
