"""The user of a conversation: answers when the agent writes a message instead of calling a tool.

It is scripted (`@env.user`), or a persona that a model plays (`@env.persona`). Both have a deadline. If a scripted user fails,
the environment failed; if a persona fails, the model did.
"""

import math
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Any

import anyio
import msgspec

from sandlot.core.concurrency import author
from sandlot.core.concurrency.clock import deadline
from sandlot.core.errors import AuthorError, ConfigError, ModelError, SandlotError, boundary
from sandlot.core.persona import Persona
from sandlot.core.ports.session import User, UserTurn
from sandlot.core.ports.world import World
from sandlot.core.task import Task
from sandlot.core.trace import Event
from sandlot.core.types import End
from sandlot.env.declaration import Declaration
from sandlot.env.keeper import Keeper

OpenUser = Callable[[Persona], AbstractAsyncContextManager[User]]
"""Opens the user of one rollout for a persona."""


class LimitedUser:
    """A user with a deadline for each reply, and a limit on the time of all replies together.

    A reply that is too slow is the user's failure. The agent decides how many replies there are, so if only their sum is too
    long, the rollout ends with `time_limit` and is graded.
    """

    def __init__(self, user: User, each_s: float, kind: type[SandlotError], what: str, *, all_s: float = math.inf) -> None:
        self.user = user
        self._each_s = each_s
        self._kind = kind
        self._what = what
        self._all_s = all_s
        self._used_s = 0.0

    async def reply(self, text: str) -> UserTurn:
        """Ask the user. The reply that uses up the time for all replies ends the rollout."""
        with deadline(self._each_s, self._kind, self._what) as scope:
            turn = await self.user.reply(text)
            self._used_s += self._each_s - (scope.deadline - anyio.current_time())  # less queueing and retries
        if self._used_s < self._all_s or turn.end is not None:
            return turn
        limit = Event(kind="user_time_limit", turn=0, detail={"limit_s": self._all_s, "used_s": round(self._used_s, 3)})
        return msgspec.structs.replace(turn, end=End.TIME_LIMIT, events=(*turn.events, limit))


class Replies:
    """A scripted `User`: the task's prompt first, then what the author's function returns."""

    def __init__(self, function: Callable[..., Any], world: World, task: Task) -> None:
        self._function = function
        self._world = world
        self._task = task

    async def open(self) -> UserTurn:
        """The task's prompt."""
        return UserTurn(text=self._task.prompt)

    async def reply(self, text: str) -> UserTurn:
        """Call the author's function; None ends the rollout."""
        reply = await author.call(self._function, self._world, text)
        if reply is not None and not isinstance(reply, str):
            raise AuthorError(f"the `@env.user` function returned {type(reply).__name__} {reply!r}; return a str, or None to end")
        return UserTurn(end=End.DONE) if reply is None else UserTurn(text=reply)


def require_user(env: Declaration, *, named: bool) -> None:
    """`ConfigError` if a persona has no model to play it, or a model is named and there is no persona."""
    if named and not env.marked.is_played:
        raise ConfigError(
            f"environment `{env.name}` has no persona for a model to play; leave out `--user`, or add `@env.persona`"
        )
    if not named and env.marked.needs_player:
        who = "colleagues" if env.marked.colleagues is not None else "a user"
        if env.marked.roles:
            who = f"the role {', '.join(env.marked.roles)}"
        raise ConfigError(f"environment `{env.name}` has {who} that a model plays; name the model with `--user MODEL`")


async def persona_of(env: Declaration, task: Task) -> Persona:
    """The persona of a task. The author's function gets the task without its key."""
    if env.marked.persona is None:
        raise ConfigError(f"environment `{env.name}` has no persona for a model to play; add one with `@env.persona`")
    with deadline(env.limits.but(task.limits).setup_s, AuthorError, f"the persona of task `{task.id}`"):
        persona = await author.call(env.marked.persona, task.public())
        if not isinstance(persona, Persona):
            raise TypeError(f"returned {type(persona).__name__} {persona!r:.80}; return `Persona(who=...)`")
    return persona


async def open_user(env: Declaration, task: Task, world: World, played: OpenUser | None, keeper: Keeper) -> LimitedUser | None:
    """Open the user that answers the agent's messages; None if there is none."""
    limits = env.limits.but(task.limits)
    if played is not None and env.marked.persona is not None:
        persona = await persona_of(env, task)
        user = await keeper.enter(played(persona), limits.provision_s, ModelError, "opening the user")
        return LimitedUser(user, limits.time_s, ModelError, "the user's reply", all_s=limits.time_s)
    if env.marked.user is None:
        return None
    with boundary(AuthorError, f"the user of task `{task.id}`"):
        return LimitedUser(env.marked.user(world, task), limits.tool_s, AuthorError, "the environment's reply")
