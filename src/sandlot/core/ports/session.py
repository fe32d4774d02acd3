"""What a session, a harness and a policy must do: the loop between an agent and a world."""

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from typing import Protocol, runtime_checkable

import msgspec

from sandlot.core.limits import Limits
from sandlot.core.persona import Persona
from sandlot.core.ports.sandbox import Sandbox
from sandlot.core.ports.world import ToolSpec
from sandlot.core.task import Task
from sandlot.core.trace import Event, Message, Node, Trace
from sandlot.core.types import End

# -- worlds ------------------------------------------------------------------------------------------------------------


# -- tools -------------------------------------------------------------------------------------------------------------


# -- sessions and harnesses --------------------------------------------------------------------------------------------


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """What an action led to."""

    messages: tuple[Message, ...]
    end: End | None = None
    """None: go on."""
    events: tuple[Event, ...] = ()
    user: Node | None = None
    """The last message as a model said it who plays the user, with what it took; None if nobody had to."""

    @property
    def nodes(self) -> tuple[Node, ...]:
        """The messages as nodes that have no place in a tree yet."""
        if self.user is None:
            return tuple(Node(message=message) for message in self.messages)
        return (*(Node(message=message) for message in self.messages[:-1]), self.user)

    @property
    def terminated(self) -> bool:
        """The task itself is over."""
        return self.end in {End.DONE, End.BREACH, End.REFUSED}

    @property
    def truncated(self) -> bool:
        """A budget ran out; the task itself might have gone on."""
        return self.end is not None and not self.terminated


class Session(Protocol):
    """An opened world with the loop turned inside out. Limits and constraints are kept here, whoever holds the loop."""

    @property
    def tools(self) -> Sequence[ToolSpec]:
        """What the agent may call."""
        ...

    async def reset(self) -> Step:
        """The opening messages."""
        ...

    async def step(self, action: Message, *, num_tokens: int = 0) -> Step:
        """Take one assistant message: run its tool calls, or hear the environment's reply."""
        ...

    async def render(self) -> str:
        """The present situation for a person."""
        ...


@runtime_checkable
class Workplace(Session, Protocol):
    """A session whose machine a harness may put an agent of its own into; the limits of the task hold there too."""

    @property
    def limits(self) -> Limits:
        """What the rollout may use."""
        ...

    def machine(self) -> Sandbox:
        """The sandbox; `ConfigError` if the environment has none."""
        ...

    def count_turn(self, num_tokens: int) -> End | None:
        """Count a turn that was taken beside `step`; the limit that is reached with it, if one is."""
        ...


class UserTurn(msgspec.Struct, frozen=True, kw_only=True):
    """What a user says."""

    text: str = ""
    """Empty if it ends the conversation without a word."""
    end: End | None = None
    """None: it waits for an answer. `done`: it has nothing more to say. `token_limit`, `time_limit`: it can take in no more."""
    node: Node | None = None
    """How the text came about, if a model said it: sampled, in the role of the user."""
    events: tuple[Event, ...] = ()


class User(Protocol):
    """The other side of a conversation: it hears what the agent says, and nothing of what it does."""

    async def open(self) -> UserTurn:
        """The first words."""
        ...

    async def reply(self, text: str) -> UserTurn:
        """What it answers to a plain message; `ModelError` if a model that plays it gives nothing to go on with."""
        ...


class Users(Protocol):
    """Where users come from that a model plays: one for each rollout."""

    @property
    def name(self) -> str:
        """The model, as the person who runs it wrote it, without secrets."""
        ...

    def user(self, persona: Persona, task: Task, seed: int, rollout: int = 0) -> AbstractAsyncContextManager[User]:
        """A user for one rollout of a task, which is given without its key; `seed` is for its sampling."""
        ...


class Policy(Protocol):
    """A model at a weight version with its sampling settings, able to take a turn."""

    async def turn(self, trace: Trace, leaf: int, tools: Sequence[ToolSpec]) -> Node:
        """The next assistant message below `leaf`, as a sampled node; `ModelError` if there is none to be had."""
        ...


class Policies(Protocol):
    """Where policies come from: one for each rollout, so that it may keep state of its own while the rollout lives."""

    @property
    def name(self) -> str:
        """As the user wrote it, without secrets."""
        ...

    def policy(self, task: Task, seed: int, rollout: int = 0) -> AbstractAsyncContextManager[Policy]:
        """A policy for one rollout of a task, by its number; `seed` is for its sampling."""
        ...


class Harness(Protocol):
    """The loop between a policy and a session."""

    @property
    def name(self) -> str:
        """Part of the setting's fingerprint."""
        ...

    async def play(self, session: Session, policy: Policy, trace: Trace) -> End:
        """Take turns until there is an end, appending everything to the trace."""
        ...


class Hook(Protocol):
    """Sees every turn; may replace it or raise `StoppedByHook`."""

    async def after_turn(self, trace: Trace, node: Node) -> Message | None:
        """Called with each sampled node before it is acted on. A message takes its place and is recorded as an intervention."""
        ...

    async def after_step(self, trace: Trace, step: Step) -> None:
        """Called with what the environment answered."""
        ...


# -- models ------------------------------------------------------------------------------------------------------------


# -- grading -----------------------------------------------------------------------------------------------------------


# -- keeping -----------------------------------------------------------------------------------------------------------
