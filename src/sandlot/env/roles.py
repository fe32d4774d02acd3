"""Roles of a program of another framework, such as the customer in Inspect's tau2: the run's `--user` model plays them.

The program writes the instructions, keeps the conversations and may give a role tools of its own; all it gets from here is the
next message. Each one leaves the event `role_answered`, from which a replay repeats it. The time is not the agent's. A model that
fails is the rollout's failure. What an agent can cause is scored: a conversation that is too long for the model, and answers that
together take too long or are too many, end the rollout.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import anyio
import msgspec

from sandlot.core.concurrency.clock import deadline, pause_limits
from sandlot.core.errors import ConfigError, ModelError
from sandlot.core.persona import ROLE_ANSWERED, Persona
from sandlot.core.ports.session import RolePlayer, UserTurn
from sandlot.core.ports.world import ToolSpec
from sandlot.core.task import Task
from sandlot.core.trace import Event, Message
from sandlot.core.types import End, Role
from sandlot.env.declaration import Declaration
from sandlot.env.keeper import Keeper
from sandlot.env.user import OpenUser

MAX_ANSWERS = 1_000
"""Answers in one rollout: a role with tools may call them without end."""


@dataclass(slots=True)
class PlayedRoles:
    """The roles of one world: a `RolePlayer` with limits, which records its answers."""

    player: RolePlayer
    time_s: float
    """The time for one answer, and for all of them."""
    _events: list[Event] = field(default_factory=list[Event], init=False)
    _told: set[str] = field(default_factory=set[str], init=False)
    _end: End | None = field(default=None, init=False)
    _num_answers: int = field(default=0, init=False)
    _used_s: float = field(default=0.0, init=False)

    async def answer(self, role: str, messages: Sequence[Message], tools: Sequence[ToolSpec]) -> UserTurn:
        """Ask the model. Once a limit is reached, there is an end and no answer."""
        if self._end is None and (self._num_answers >= MAX_ANSWERS or self._used_s >= self.time_s):
            detail = {"answers": self._num_answers, "used_s": round(self._used_s, 3), "limit_s": self.time_s}
            self._limit(End.TIME_LIMIT, "user_time_limit", detail)
        if self._end is not None:
            return UserTurn(end=self._end)
        self._num_answers += 1
        with pause_limits(), deadline(self.time_s, ModelError, f"the answer of role `{role}`") as scope:
            turn = await self.player.answer(role, messages, tools)
            self._used_s += self.time_s - (scope.deadline - anyio.current_time())  # less queueing and retries
        self._tell(role, messages, turn)
        self._events += turn.events
        self._end = turn.end
        if turn.node is not None:
            said = turn.node.message
            usage = msgspec.to_builtins(turn.node.usage) if turn.node.usage else None
            detail = {"role": role, "text": said.text, "calls": msgspec.to_builtins(said.calls), "model": turn.node.model}
            detail |= {"usage": usage, "seconds": turn.node.seconds}
            self._events.append(Event(kind=ROLE_ANSWERED, turn=0, detail=detail))
        return turn

    def take(self, turn: int) -> tuple[list[Event], End | None]:
        """The events since the last call, as those of this turn, and the end if a limit is reached."""
        events, self._events = self._events, []
        return [msgspec.structs.replace(event, turn=turn) for event in events], self._end

    def _tell(self, role: str, messages: Sequence[Message], turn: UserTurn) -> None:
        """Record the instructions of a role, once."""
        if role not in self._told:
            self._told.add(role)
            told = "\n\n".join(message.text for message in messages if message.role is Role.SYSTEM)
            model = turn.node.model if turn.node else None
            self._events.append(Event(kind="user_told", turn=0, detail={"model": model, "instructions": told, "role": role}))

    def _limit(self, end: End, kind: str, detail: dict[str, float]) -> None:
        self._end = end
        self._events.append(Event(kind=kind, turn=0, detail=dict(detail)))


async def open_roles(env: Declaration, task: Task, played: OpenUser | None, keeper: Keeper) -> PlayedRoles | None:
    """Open the model that plays the roles of an environment; None if it has none."""
    if not env.marked.roles or played is None:
        return None
    names = ", ".join(env.marked.roles)
    limits = env.limits.but(task.limits)
    persona = Persona(who=f"the role {names} of environment `{env.name}`", role=names)
    player = await keeper.enter(played(persona), limits.provision_s, ModelError, f"opening the model for the role {names}")
    if not isinstance(player, RolePlayer):
        raise ConfigError(f"environment `{env.name}` asks a model in the role {names}, which this user cannot play; name another")
    return PlayedRoles(player, limits.time_s)
