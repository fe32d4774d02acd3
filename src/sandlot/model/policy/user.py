"""A user that a model plays: another policy, with a conversation of its own.

It is told who it is, sees its own words as the assistant's and the agent's as the user's, and nothing else: no tool call, no
result, no key. It ends the conversation with a mark made for this one rollout, which the agent neither sees nor can put into its
mouth: the mark is taken out of whatever the agent says, and counts only at the very end of the user's own words.

What it says goes into the rollout's trace as a sampled node without tokens: they belong to another conversation than the agent's,
and nobody trains on them. What an agent can bring about must not spare it its score: a reply that is none is heard as it is, with
an event, and a conversation too long for the model is the end of the rollout. A model that breaks is the model's failure.
"""

from collections.abc import AsyncGenerator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass

import msgspec

from sandlot.core.errors import ModelError, boundary
from sandlot.core.persona import AGENT, Persona, read_reply, without_mark
from sandlot.core.ports.session import Policies, Policy, User, Users, UserTurn
from sandlot.core.task import Task
from sandlot.core.trace import Event, Message, Node, Text, Trace, text_message
from sandlot.core.types import End, Role, derive_seed
from sandlot.model.wire.text_calls import as_text

CONNECTED = "(You are connected to the assistant. Write your first message.)"
"""Stands before the user's first words: most chat templates have the other side begin."""
SILENCE = "(The assistant says nothing.)"
SILENT = "(The user says nothing.)"
SPOKEN_CHARS = 16_000
"""What either side hears of one message; the middle is cut, with a marker and an event."""


def played_users(policies: Policies) -> Users:
    """Users that are played by a model's policies."""
    return _PlayedUsers(policies)


@dataclass(frozen=True, slots=True)
class _PlayedUsers:
    """`ports.Users` over any policies."""

    policies: Policies

    @property
    def name(self) -> str:
        """The model's."""
        return self.policies.name

    def user(self, persona: Persona, task: Task, seed: int, rollout: int = 0) -> AbstractAsyncContextManager[User]:
        """A user with a policy of its own."""
        return self._opened(persona, task, seed, rollout)

    @asynccontextmanager
    async def _opened(self, persona: Persona, task: Task, seed: int, rollout: int) -> AsyncGenerator[User]:
        async with self.policies.policy(task, seed, rollout) as policy:
            yield _PlayedUser(self.name, policy, persona, task, seed)


def end_mark(seed: int) -> str:
    """How the user of one rollout says that it is done."""
    return f"END-{derive_seed('end of a conversation', seed) % 16**6:06X}"


class _PlayedUser:
    """`ports.User` for one rollout."""

    def __init__(self, name: str, policy: Policy, persona: Persona, task: Task, seed: int) -> None:
        self._name = name
        self._policy = policy
        self._prompt = task.prompt
        self._mark = end_mark(seed)
        self._instructions = persona.instructions(self._mark)
        self._view = Trace(run="user", task=task.id, rollout=0, seed=seed)
        self._leaf: int | None = None
        opening = (
            text_message(Role.SYSTEM, self._instructions),
            text_message(Role.USER, CONNECTED),
            text_message(Role.ASSISTANT, self._prompt),
        )
        for message in opening:
            self._leaf = self._view.append(Node(message=message, parent=self._leaf))

    async def open(self) -> UserTurn:
        """The task's prompt, the same in every rollout; the event says what the user was told."""
        told = Event(kind="user_told", turn=0, detail={"model": self._name, "instructions": self._instructions})
        return UserTurn(text=self._prompt, events=(told,))

    async def reply(self, text: str) -> UserTurn:
        """The model's next words as the user."""
        events: list[Event] = []
        heard = _cut(without_mark(text, self._mark), "user_heard_cut", events) or SILENCE
        self._leaf = self._view.append(Node(message=text_message(Role.USER, heard), parent=self._leaf))
        known = len(self._view.events)
        try:
            with boundary(ModelError, "its policy"):
                node = await self._policy.turn(self._view, self._leaf, ())
        except ModelError as error:
            if error.kind != "context":
                raise _blamed(error, self._name) from error
            # The agent made the conversation as long as it is: that must not spare it its score.
            events.append(Event(kind="user_context_overflow", turn=0, detail={"message": str(error)[:500]}))
            return UserTurn(end=End.TOKEN_LIMIT, events=tuple(events))
        node = msgspec.structs.replace(node, message=_spoken_by(node, events))
        self._leaf = self._view.append(node)
        events += (msgspec.structs.replace(event, detail={**event.detail, "agent": AGENT}) for event in self._view.events[known:])
        return self._read(node, events)

    def _read(self, node: Node, events: list[Event]) -> UserTurn:
        reading = read_reply(node.message.text, self._mark)
        if node.stop == "length":
            events.append(Event(kind="user_turn_cut", turn=0, detail={"chars": len(reading.text)}))
        shown = _cut(reading.text, "user_said_cut", events)
        if not shown and not reading.done:  # its mark, out of place, and nothing else
            shown = SILENT
            events.append(Event(kind="user_said_nothing", turn=0, detail={"stop": node.stop}))
        end = End.DONE if reading.done else None
        if not shown:
            return UserTurn(end=end, events=tuple(events))
        message = Message(role=Role.USER, parts=(Text(shown),), agent=AGENT)
        # Without its tokens: what they follow is the user's own conversation, which is not the one that is trained on.
        uttered = msgspec.structs.replace(node, message=message, parent=None, context=b"", tokens=None)
        return UserTurn(text=shown, end=end, node=uttered, events=tuple(events))


def _spoken_by(node: Node, events: list[Event]) -> Message:
    """A model's turn as words: a user has no tools, so a call it writes is only text; what is no reply is told."""
    (spoken,) = as_text([node.message], ())
    if node.stop == "refusal":
        events.append(Event(kind="user_refused", turn=0, detail={"text": spoken.text[:200]}))
    if node.message.calls:
        events.append(Event(kind="user_called", turn=0, detail={"tools": [call.name for call in node.message.calls]}))
    if spoken.text.strip():
        return spoken
    events.append(Event(kind="user_said_nothing", turn=0, detail={"stop": node.stop}))
    return text_message(Role.ASSISTANT, SILENT)


def _cut(text: str, kind: str, events: list[Event]) -> str:
    """No more of a message than either side is shown; what is cut is told."""
    if len(text) <= SPOKEN_CHARS:
        return text
    half = SPOKEN_CHARS // 2
    events.append(Event(kind=kind, turn=0, detail={"chars": len(text), "shown": SPOKEN_CHARS}))
    return f"{text[:half]}\n[... {len(text) - 2 * half} of {len(text)} characters cut here ...]\n{text[-half:]}"


def _blamed(error: ModelError, name: str) -> ModelError:
    """The same failure, with whose it was."""
    return ModelError(
        f"the user, played by `{name}`: {error}",
        kind=error.kind,
        retryable=error.retryable,
        retry_after_s=error.retry_after_s,
    )
