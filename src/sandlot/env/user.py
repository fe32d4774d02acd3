"""The other side of a conversation: who answers when the agent says something instead of calling a tool.

Either the author's own replies (`@env.user`), which are code and part of the environment, or a persona (`@env.persona`) that a
model plays. Both are heard under a deadline; whose failure it is when they break is the difference.
"""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Any

from sandlot import author
from sandlot.clock import SYSTEM_CLOCK, deadline
from sandlot.env.environment import Environment
from sandlot.env.opening import Keeper
from sandlot.errors import AuthorError, ConfigError, ModelError, SandlotError, boundary
from sandlot.persona import Persona
from sandlot.ports import User, UserTurn, World
from sandlot.task import Task
from sandlot.types import End

OpenUser = Callable[[Persona], AbstractAsyncContextManager[User]]
"""Opens the user of one rollout, from who it is."""


class Listener:
    """A user under a deadline: of every reply, or of all of them together where a model plays it."""

    def __init__(self, user: User, seconds: float, kind: type[SandlotError], what: str, *, each: bool = False) -> None:
        self.user = user
        self._left_s = seconds
        self._kind = kind
        self._what = what
        self._each = each

    async def reply(self, text: str) -> UserTurn:
        """What it says within its time."""
        started = SYSTEM_CLOCK.monotonic()
        with deadline(max(self._left_s, 0.0), self._kind, self._what):
            turn = await self.user.reply(text)
        self._left_s -= 0.0 if self._each else SYSTEM_CLOCK.monotonic() - started
        return turn


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


def require_user(env: Environment, *, named: bool) -> None:
    """Refuse a conversation without its other side, and a model that would have nobody to play."""
    if named and env.parts.persona is None:
        raise ConfigError(f"environment `{env.name}` has no user for a model to play; leave `--user` out, or mark `@env.persona`")
    if not named and env.parts.persona is not None and env.parts.user is None:
        raise ConfigError(f"environment `{env.name}` has a user for a model to play; name the model with `--user MODEL`")


async def persona_of(env: Environment, task: Task) -> Persona:
    """Who the user of a task is, from its author, who is given no key to tell."""
    if env.parts.persona is None:
        raise ConfigError(f"environment `{env.name}` has no user for a model to play; mark one with `@env.persona`")
    with deadline(env.limits.but(task.limits).setup_s, AuthorError, f"the persona of task `{task.id}`"):
        persona = await author.call(env.parts.persona, task.public())
        if not isinstance(persona, Persona):
            raise TypeError(f"it is {type(persona).__name__} {persona!r:.80}; return `Persona(who=...)`")
    return persona


async def open_listener(env: Environment, task: Task, world: World, played: OpenUser | None, keeper: Keeper) -> Listener | None:
    """Who hears the agent's plain messages; None if nobody does."""
    limits = env.limits.but(task.limits)
    if played is not None and env.parts.persona is not None:
        persona = await persona_of(env, task)
        user = await keeper.enter(played(persona), limits.provision_s, ModelError, "opening the user")
        what = f"the user's replies, with {limits.time_s:g} s for all of them"
        return Listener(user, limits.time_s, ModelError, what)
    if env.parts.user is None:
        return None
    with boundary(AuthorError, f"the user of task `{task.id}`"):
        return Listener(env.parts.user(world, task), limits.tool_s, AuthorError, "the environment's reply", each=True)
