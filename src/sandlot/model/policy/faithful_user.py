"""`--user scripted:persona`: a user without a model that follows its persona exactly.

It states a fact when the question contains all words of the fact's name, and ends the conversation when the agent's message is
similar to one of the persona's `solved` examples. It is deterministic: a perfect user for tests.
"""

import re
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass

from sandlot.core.persona import AGENT, Persona
from sandlot.core.ports.session import User, UserTurn
from sandlot.core.task import Task
from sandlot.core.trace import Message, Node, Text
from sandlot.core.types import End, Role

FAITHFUL = "scripted:persona"
_SIMILAR = 0.5
"""Texts whose words overlap by at least this share (intersection over union) are similar."""
_MIN_LETTERS = 3
"""Shorter words of a fact's name are ignored."""
WAITING = "I have told you what I want. What else do you need from me?"
UNKNOWN = "I do not know that."
"""What a colleague says to a message that asks for nothing it knows."""


@dataclass(frozen=True, slots=True)
class FaithfulUsers:
    """`ports.Users` without a model."""

    name: str = FAITHFUL

    def user(self, persona: Persona, task: Task, seed: int, rollout: int = 0) -> AbstractAsyncContextManager[User]:  # noqa: ARG002 - it is deterministic
        """A user that follows the persona."""
        return nullcontext(_FaithfulUser(self.name, persona, task.prompt))


@dataclass(frozen=True, slots=True)
class _FaithfulUser:
    """`ports.User` that follows its persona exactly."""

    name: str
    persona: Persona
    prompt: str

    async def open(self) -> UserTurn:
        """The task's prompt."""
        return UserTurn(text=self.prompt)

    async def reply(self, text: str) -> UserTurn:
        """The facts that were asked for, or thanks when the task is solved."""
        words = _word_set(text)
        if any(_are_similar(words, _word_set(example)) for example in self.persona.solved):
            return self._turn("Thank you, that is all.", End.DONE)
        facts = [fact for name, fact in self.persona.facts.items() if _key_words(name) and _key_words(name) <= words]
        return self._turn(" ".join(facts) or (UNKNOWN if self.persona.address else WAITING))

    def _turn(self, text: str, end: End | None = None) -> UserTurn:
        message = Message(role=Role.USER, parts=(Text(text),), agent=AGENT)
        return UserTurn(text=text, end=end, node=Node(message=message, sampled=True, stop="stop", model=self.name))


def _word_set(text: str) -> frozenset[str]:
    """The words of a text, with all numbers equal."""
    return frozenset(re.findall(r"\w+", re.sub(r"\d+(?:[.,]\d+)*", "0", text.casefold())))


def _key_words(name: str) -> frozenset[str]:
    return frozenset(word for word in _word_set(name) if len(word) >= _MIN_LETTERS)


def _are_similar(one: frozenset[str], other: frozenset[str]) -> bool:
    return bool(one | other) and len(one & other) / len(one | other) >= _SIMILAR
