"""The other side of a conversation: who answers when the agent says something instead of calling a tool.

Either the author's own replies (`@env.user`), which are code and part of the environment, or a persona (`@env.persona`) that a
model plays. Both are heard under a deadline; whose failure it is when they break is the difference.
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
"""Opens the user of one rollout, from who it is."""


class LimitedUser:
    """A user under a deadline of every reply, which is the user's own to keep, and a limit on all of them together.

    How often it is asked is the agent's doing: replies that only together take too long end the rollout, and it is graded.
    """

    def __init__(self, user: User, each_s: float, kind: type[SandlotError], what: str, *, all_s: float = math.inf) -> None:
        self.user = user
        self._each_s = each_s
        self._kind = kind
        self._what = what
        self._all_s = all_s
        self._used_s = 0.0

    async def reply(self, text: str) -> UserTurn:
        """What it says within its time; `time_limit` with the words that used it up."""
        with deadline(self._each_s, self._kind, self._what) as scope:
            turn = await self.user.reply(text)
            self._used_s += self._each_s - (scope.deadline - anyio.current_time())  # less queueing and retries
        if self._used_s < self._all_s or turn.end is not None:
            return turn
        limit = Event(kind="user_time_limit", turn=0, detail={"limit_s": self._all_s, "used_s": round(self._used_s, 3)})
        return msgspec.structs.replace(turn, end=End.TIME_LIMIT, events=(*turn.events, limit))


class Replies:
    """A `User` from the author's reply function: the task's prompt first, then whatever the function says."""

    def __init__(self, function: Callable[..., Any], world: World, task: Task) -> None:
        self._function = function
        self._world = world
        self._task = task

    async def open(self) -> UserTurn:
        """The task's prompt."""
        return UserTurn(text=self._task.prompt)

    async def reply(self, text: str) -> UserTurn:
        """The author's answer."""
        reply = await author.call(self._function, self._world, text)
        if reply is not None and not isinstance(reply, str):
            raise AuthorError(f"the environment's reply is {type(reply).__name__} {reply!r}; return text, or None at the end")
        return UserTurn(end=End.DONE) if reply is None else UserTurn(text=reply)


def require_user(env: Declaration, *, named: bool) -> None:
    """Refuse a conversation without its other side, and a model that would have nobody to play."""
    if named and env.marked.persona is None:
        raise ConfigError(f"environment `{env.name}` has no user for a model to play; leave `--user` out, or mark `@env.persona`")
    if not named and env.marked.persona is not None and env.marked.user is None:
        raise ConfigError(f"environment `{env.name}` has a user for a model to play; name the model with `--user MODEL`")


async def persona_of(env: Declaration, task: Task) -> Persona:
    """Who the user of a task is, from its author, who is given no key to tell."""
    if env.marked.persona is None:
        raise ConfigError(f"environment `{env.name}` has no user for a model to play; mark one with `@env.persona`")
    with deadline(env.limits.but(task.limits).setup_s, AuthorError, f"the persona of task `{task.id}`"):
        persona = await author.call(env.marked.persona, task.public())
        if not isinstance(persona, Persona):
            raise TypeError(f"it is {type(persona).__name__} {persona!r:.80}; return `Persona(who=...)`")
    return persona


async def open_user(env: Declaration, task: Task, world: World, played: OpenUser | None, keeper: Keeper) -> LimitedUser | None:
    """Who hears the agent's plain messages; None if nobody does."""
    limits = env.limits.but(task.limits)
    if played is not None and env.marked.persona is not None:
        persona = await persona_of(env, task)
        user = await keeper.enter(played(persona), limits.provision_s, ModelError, "opening the user")
        return LimitedUser(user, limits.time_s, ModelError, "the user's reply", all_s=limits.time_s)
    if env.marked.user is None:
        return None
    with boundary(AuthorError, f"the user of task `{task.id}`"):
        return LimitedUser(env.marked.user(world, task), limits.tool_s, AuthorError, "the environment's reply")
