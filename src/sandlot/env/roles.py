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
from sandlot.core.types import End, Json, Role
from sandlot.env.declaration import Declaration
from sandlot.env.keeper import Keeper
from sandlot.env.user import OpenUser

MAX_ANSWERS = 1_000
"""Answers in one rollout, and in scoring it: a role with tools may call them without end."""
_MAX_TOLD = 20
"""Roles whose instructions are recorded."""
_MAX_TOLD_CHARS = 100_000


@dataclass(slots=True)
class _Used:
    """What was used of the limits, of the rollout or of scoring it."""

    num_answers: int = 0
    seconds: float = 0.0
    end: End | None = None


@dataclass(slots=True)
class PlayedRoles:
    """The roles of one world: a `RolePlayer` with limits, which records its answers."""

    player: RolePlayer
    time_s: float
    """The time for one answer, and for all of them."""
    _events: list[Event] = field(default_factory=list[Event], init=False)
    _told: set[str] = field(default_factory=set[str], init=False)
    _in_play: _Used = field(default_factory=_Used, init=False)
    _in_scoring: _Used = field(default_factory=_Used, init=False)

    async def answer(
        self, role: str, messages: Sequence[Message], tools: Sequence[ToolSpec], *, scoring: bool = False
    ) -> UserTurn:
        """Ask the model. Once a limit is reached, there is an end and no answer.

        What the agent causes must not keep its rollout from being scored, so scoring has limits of its own.
        """
        used = self._in_scoring if scoring else self._in_play
        if used.end is None and (used.num_answers >= MAX_ANSWERS or used.seconds >= self.time_s):
            used.end = End.TIME_LIMIT
            detail = {"answers": used.num_answers, "used_s": round(used.seconds, 3), "limit_s": self.time_s}
            self._events.append(Event(kind="user_time_limit", turn=0, detail=detail))
            self._events.append(Event(kind=ROLE_ANSWERED, turn=0, detail=_recorded(role, UserTurn(end=used.end))))
        if used.end is not None:
            return UserTurn(end=used.end)
        used.num_answers += 1
        with pause_limits(), deadline(self.time_s, ModelError, f"the answer of role `{role}`") as scope:
            turn = await self.player.answer(role, messages, tools, scoring=scoring)
            used.seconds += self.time_s - (scope.deadline - anyio.current_time())  # less queueing and retries
        self._tell(role, messages, turn)
        self._events += turn.events
        used.end = turn.end
        self._events.append(Event(kind=ROLE_ANSWERED, turn=0, detail=_recorded(role, turn)))
        return turn

    def take(self, turn: int) -> tuple[list[Event], End | None]:
        """The events since the last call, as those of this turn, and the end if a limit is reached."""
        events, self._events = self._events, []
        return [msgspec.structs.replace(event, turn=turn) for event in events], self._in_play.end

    def _tell(self, role: str, messages: Sequence[Message], turn: UserTurn) -> None:
        """Record the instructions of a role, once. The program writes them, and may name many roles."""
        if role not in self._told and len(self._told) < _MAX_TOLD:
            self._told.add(role)
            told = "\n\n".join(message.text for message in messages if message.role is Role.SYSTEM)
            model = turn.node.model if turn.node else None
            self._events.append(
                Event(kind="user_told", turn=0, detail={"model": model, "instructions": told[:_MAX_TOLD_CHARS], "role": role})
            )


def _recorded(role: str, turn: UserTurn) -> Json:
    """All that a replay needs to repeat an answer, or an end."""
    if turn.node is None:
        return {"role": role, "text": "", "calls": [], "model": None, "usage": None, "seconds": 0.0, "stop": "", "end": turn.end}
    said, usage = turn.node.message, turn.node.usage
    return {
        "role": role,
        "text": said.text,
        "calls": msgspec.to_builtins(said.calls),
        "model": turn.node.model,
        "usage": msgspec.to_builtins(usage) if usage else None,
        "seconds": turn.node.seconds,
        "stop": turn.node.stop,
        "end": None,
    }


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
