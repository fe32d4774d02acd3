"""A simulated user, or colleague: a model that plays a persona, with a conversation of its own.

Its conversation holds the persona's instructions, its own messages as the assistant's and the agent's messages as the user's. It
sees no tool calls, no results and no key. It ends the conversation with an end mark that is unique to the rollout. The mark is
removed from the agent's messages and counts only at the very end of the user's message, so an agent cannot forge it.

User messages enter the rollout's trace as sampled nodes without tokens, since they are not trained on. An agent must not avoid
its score through the user: an empty reply is delivered as such, with an event; a conversation too long for the user's model ends
the rollout. Other model errors are the model's failure.

A colleague does not know the task: its conversation holds only the messages to it, each between two marks, since an agent wrote
them.
"""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import msgspec

from sandlot.core.errors import ModelError, boundary
from sandlot.core.persona import AGENT, Persona, read_reply, without_mark
from sandlot.core.ports.session import Policies, Policy, User, UserTurn
from sandlot.core.task import Task
from sandlot.core.trace import Event, Message, Node, Text, Trace, text_message
from sandlot.core.types import End, Role, derive_seed
from sandlot.model.policy.role import ModelRole
from sandlot.model.wire.text_calls import messages_as_text

CONNECTED = "(You are connected to the assistant. Write your first message.)"
"""Precedes the first user message: most chat templates expect the other side to begin."""
NO_AGENT_TEXT = "(The assistant says nothing.)"
NO_USER_TEXT = "(The user says nothing.)"
MAX_MESSAGE_CHARS = 16_000
"""Maximum length of a message that either side receives; the middle is cut, with a marker and an event."""


@dataclass(frozen=True, slots=True)
class ModelUsers:
    """`ports.Users` that a model's policies play."""

    policies: Policies

    @property
    def name(self) -> str:
        """The model's name."""
        return self.policies.name

    @asynccontextmanager
    async def user(self, persona: Persona, task: Task, seed: int, rollout: int = 0) -> AsyncGenerator[User]:
        """A user with a policy of its own."""
        async with self.policies.policy(task, seed, rollout) as policy:
            if persona.role:
                yield ModelRole(self.name, policy, task, seed)
            else:
                yield _ModelUser(self.name, policy, persona, task, seed)


def end_mark(seed: int) -> str:
    """The text with which the user of one rollout ends the conversation."""
    return f"END-{derive_seed('end of a conversation', seed) % 16**6:06X}"


class _ModelUser:
    """`ports.User` for one rollout."""

    def __init__(self, name: str, policy: Policy, persona: Persona, task: Task, seed: int) -> None:
        self._name = name
        self._policy = policy
        self._prompt = task.prompt
        self._mark = end_mark(seed)
        self._instructions = persona.instructions(self._mark)
        self._view = Trace(run="user", task=task.id, rollout=0, seed=seed)
        self._leaf: int | None = None
        self._fence = f"\n{self._mark}\n" if persona.address else ""
        opening = [text_message(Role.SYSTEM, self._instructions)]
        if not persona.address:
            opening += [text_message(Role.USER, CONNECTED), text_message(Role.ASSISTANT, self._prompt)]
        for message in opening:
            self._leaf = self._view.append(Node(message=message, parent=self._leaf))

    async def open(self) -> UserTurn:
        """The task's prompt; an event records the user's instructions."""
        told = Event(kind="user_told", turn=0, detail={"model": self._name, "instructions": self._instructions})
        return UserTurn(text=self._prompt, events=(told,))

    async def reply(self, text: str) -> UserTurn:
        """The model's next message as the user."""
        events: list[Event] = []
        received = _cut(without_mark(text, self._mark), "user_heard_cut", events) or NO_AGENT_TEXT
        received = f"{self._fence}{received}{self._fence}".strip()
        self._leaf = self._view.append(Node(message=text_message(Role.USER, received), parent=self._leaf))
        known = len(self._view.events)
        try:
            with boundary(ModelError, "its policy"):
                node = await self._policy.turn(self._view, self._leaf, ())
        except ModelError as error:
            if error.kind != "context":
                raise error.with_message(f"the user, played by `{self._name}`: {error}") from error
            # The agent caused the length, so the rollout is still graded.
            events.append(Event(kind="user_context_overflow", turn=0, detail={"message": str(error)[:500]}))
            return UserTurn(end=End.TOKEN_LIMIT, events=tuple(events))
        node = msgspec.structs.replace(node, message=_reply_message(node, events))
        self._leaf = self._view.append(node)
        events += (msgspec.structs.replace(event, detail={**event.detail, "agent": AGENT}) for event in self._view.events[known:])
        return self._read(node, events)

    def _read(self, node: Node, events: list[Event]) -> UserTurn:
        reading = read_reply(node.message.text, self._mark)
        if node.stop == "length":
            events.append(Event(kind="user_turn_cut", turn=0, detail={"chars": len(reading.text)}))
        shown = _cut(reading.text, "user_said_cut", events)
        if not shown and not reading.done:  # only the end mark, at the wrong place
            shown = NO_USER_TEXT
            events.append(Event(kind="user_said_nothing", turn=0, detail={"stop": node.stop}))
        end = End.DONE if reading.done else None
        if not shown:
            return UserTurn(end=end, events=tuple(events))
        message = Message(role=Role.USER, parts=(Text(shown),), agent=AGENT)
        # Its tokens belong to the user's conversation, which is not trained on.
        uttered = msgspec.structs.replace(node, message=message, parent=None, context=b"", tokens=None)
        return UserTurn(text=shown, end=end, node=uttered, events=tuple(events))


def _reply_message(node: Node, events: list[Event]) -> Message:
    """A model's turn as a text message; calls become text. Refusals, calls and empty replies are recorded as events."""
    (message,) = messages_as_text([node.message], ())
    if node.stop == "refusal":
        events.append(Event(kind="user_refused", turn=0, detail={"text": message.text[:200]}))
    if node.message.calls:
        events.append(Event(kind="user_called", turn=0, detail={"tools": [call.name for call in node.message.calls]}))
    if message.text.strip():
        return message
    events.append(Event(kind="user_said_nothing", turn=0, detail={"stop": node.stop}))
    return text_message(Role.ASSISTANT, NO_USER_TEXT)


def _cut(text: str, kind: str, events: list[Event]) -> str:
    """The message, cut to the maximum length; a cut is recorded as an event."""
    if len(text) <= MAX_MESSAGE_CHARS:
        return text
    half = MAX_MESSAGE_CHARS // 2
    events.append(Event(kind=kind, turn=0, detail={"chars": len(text), "shown": MAX_MESSAGE_CHARS}))
    return f"{text[:half]}\n[... {len(text) - 2 * half} of {len(text)} characters cut here ...]\n{text[-half:]}"
