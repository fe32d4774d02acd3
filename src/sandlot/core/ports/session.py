"""The interfaces of the loop between an agent and a world: session, user, policy, harness, hook."""

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from typing import Protocol, runtime_checkable

import msgspec

from sandlot.core.limits import Limits
from sandlot.core.persona import Persona
from sandlot.core.ports.sandbox import Sandbox
from sandlot.core.ports.world import ToolSpec
from sandlot.core.task import Task
from sandlot.core.trace import Event, Message, Node, ToolCall, Trace
from sandlot.core.types import End


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """The environment's answer to an action."""

    messages: tuple[Message, ...]
    end: End | None = None
    """None: the rollout goes on."""
    events: tuple[Event, ...] = ()
    user: Node | None = None
    """The last message as sampled from the model that plays the user; None if it was not sampled."""

    @property
    def nodes(self) -> tuple[Node, ...]:
        """The messages as nodes without a parent."""
        if self.user is None:
            return tuple(Node(message=message) for message in self.messages)
        return (*(Node(message=message) for message in self.messages[:-1]), self.user)

    @property
    def terminated(self) -> bool:
        """True if the task itself is over."""
        return self.end is not None and self.end.terminated

    @property
    def truncated(self) -> bool:
        """True if a limit ended the rollout."""
        return self.end is not None and not self.terminated


class Session(Protocol):
    """An open world, stepped from outside. It enforces limits and constraints for every caller."""

    @property
    def tools(self) -> Sequence[ToolSpec]:
        """The tools the agent may call."""
        ...

    async def reset(self) -> Step:
        """Return the opening messages."""
        ...

    async def step(self, action: Message, *, num_tokens: int = 0) -> Step:
        """Process one assistant message: run its tool calls, or ask the user for a reply."""
        ...

    async def render(self) -> str:
        """The conversation so far, as text for a person."""
        ...


@runtime_checkable
class Workplace(Session, Protocol):
    """A session in whose sandbox a harness may run its own agent, under the limits of the task."""

    @property
    def limits(self) -> Limits:
        """The limits of the rollout."""
        ...

    def machine(self) -> Sandbox:
        """The sandbox; `ConfigError` if the environment has none."""
        ...

    @property
    def outside_tools(self) -> Sequence[ToolSpec]:
        """The tools that an agent with a shell in the sandbox does not have anyway: all but `bash` and `terminal`."""
        ...

    def count_turn(self, num_tokens: int) -> End | None:
        """Count a turn taken without `step`; return the limit it reaches, if any."""
        ...

    async def call(self, call: ToolCall) -> Step:
        """Run a tool call made without `step`, as one of the current turn; `ToolError` if the turn has made too many."""
        ...


class UserTurn(msgspec.Struct, frozen=True, kw_only=True):
    """A message from the user."""

    text: str = ""
    """May be empty at the end of the conversation."""
    end: End | None = None
    """None: the user waits for an answer. `done`: it is finished. `token_limit`, `time_limit`: its own limit is reached."""
    node: Node | None = None
    """The sampled node, if a model plays the user."""
    events: tuple[Event, ...] = ()


class User(Protocol):
    """The user of a conversation: sees the agent's messages, not its tool calls."""

    async def open(self) -> UserTurn:
        """The first message."""
        ...

    async def reply(self, text: str) -> UserTurn:
        """The reply to a message without tool calls; `ModelError` if the model that plays the user fails."""
        ...


@runtime_checkable
class RolePlayer(Protocol):
    """A model in the roles of a program of another framework, which keeps the conversations itself."""

    async def answer(
        self, role: str, messages: Sequence[Message], tools: Sequence[ToolSpec], *, scoring: bool = False
    ) -> UserTurn:
        """The next message of a conversation, as `node`; an `end` and no node if a limit is reached. `ModelError` if it fails.

        `scoring` is for the judges of a scorer, whose limits are not those of the rollout.
        """
        ...


@runtime_checkable
class RoleWorld(Protocol):
    """A world in which the run's `--user` model plays the roles of a foreign program: for loops of other frameworks."""

    roles: RolePlayer | None
    """None if there are no roles to play."""


class Users(Protocol):
    """Opens users that a model plays, one per rollout."""

    @property
    def name(self) -> str:
        """The model's name as given, without secrets."""
        ...

    def user(self, persona: Persona, task: Task, seed: int, rollout: int = 0) -> AbstractAsyncContextManager[User]:
        """A user for one rollout of a task, given without its key. `seed` is for sampling.

        For a persona with a `role` it is a `RolePlayer` too.
        """
        ...


class Policy(Protocol):
    """A model at one weight version with sampling settings, which takes turns."""

    async def turn(self, trace: Trace, leaf: int, tools: Sequence[ToolSpec]) -> Node:
        """The next assistant message below `leaf`, as a sampled node; `ModelError` if it fails."""
        ...


class Policies(Protocol):
    """Opens policies, one per rollout, so that a policy may keep state during its rollout."""

    @property
    def name(self) -> str:
        """The name as given, without secrets."""
        ...

    def policy(self, task: Task, seed: int, rollout: int = 0) -> AbstractAsyncContextManager[Policy]:
        """A policy for one rollout of a task. `seed` is for sampling."""
        ...


class Harness(Protocol):
    """The loop between a policy and a session."""

    @property
    def name(self) -> str:
        """Part of the setting's fingerprint."""
        ...

    async def play(self, session: Session, policy: Policy, trace: Trace) -> End:
        """Take turns until the rollout ends, and append every message to the trace."""
        ...


class Hook(Protocol):
    """Called after every turn; may replace the message, or stop the rollout with `StoppedByHook`."""

    async def after_turn(self, trace: Trace, node: Node) -> Message | None:
        """Called with each sampled node before its calls run. A returned message replaces it, recorded as an intervention."""
        ...

    async def after_step(self, trace: Trace, step: Step) -> None:
        """Called with the environment's answer."""
        ...
