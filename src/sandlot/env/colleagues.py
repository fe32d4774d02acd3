"""Colleagues whom a model plays: the messages to them are read by the run's `--user` model, and its answers arrive as events.

The model is asked as soon as a message has been sent, so its failure is the rollout's, and the answer arrives when the world's
clock says so. Each message leaves the event `colleague_answered`, from which a replay repeats the answer.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import msgspec

from sandlot.apps.colleague import Colleague, UnansweredMessage
from sandlot.apps.live import LiveApps
from sandlot.core.concurrency import author
from sandlot.core.concurrency.clock import deadline
from sandlot.core.errors import AuthorError, ConfigError, ModelError
from sandlot.core.persona import COLLEAGUE_ANSWERED, NO_REPLY
from sandlot.core.ports.session import UserTurn
from sandlot.core.task import Task
from sandlot.core.trace import Event
from sandlot.core.types import End
from sandlot.env.declaration import Declaration
from sandlot.env.keeper import Keeper
from sandlot.env.roles import PlayedRoles
from sandlot.env.user import LimitedUser, OpenUser, open_user
from sandlot.env.world import LiveWorld


class PlayedColleagues:
    """The colleagues of one world whom a model plays."""

    def __init__(self, players: Mapping[str, LimitedUser], events: Sequence[Event]) -> None:
        self._players = players
        self._opening = list(events)

    async def answer(self, apps: LiveApps) -> tuple[list[Event], End | None]:
        """Let each message be read that waits, and plan the answers. The end if the time for all answers is used up."""
        events, self._opening = self._opening, list[Event]()
        while apps.unanswered:
            message = apps.unanswered.pop(0)
            email = message.colleague.email
            if email not in self._players:
                raise AuthorError(f"colleague `{email}` has a persona, and no model plays it; return it from `@env.colleagues`")
            sender = f"From {message.sent.sender}, by {message.app}:\n\n{message.sent.text}"
            turn = await self._players[email].reply(sender)
            text = "" if NO_REPLY & {event.kind for event in turn.events} else turn.text
            events += [msgspec.structs.replace(each, detail={**each.detail, "colleague": email}) for each in turn.events]
            events.append(Event(kind=COLLEAGUE_ANSWERED, turn=0, detail=_detail(message, turn, text)))
            if text:
                await _plan(apps, message, text)
            if turn.end is End.TIME_LIMIT:
                return events, turn.end
        return events, None


async def _plan(apps: LiveApps, message: UnansweredMessage, text: str) -> None:
    due = message.at + timedelta(minutes=message.colleague.minutes)
    data = {"sender": message.colleague.email, "text": text, "about": message.sent.about}
    async with apps.async_turn():
        apps.plan(message.app, message.reply, due, data)


def _detail(message: UnansweredMessage, turn: UserTurn, text: str) -> dict[str, Any]:
    """What the event says: the message is in the app's journal, so only its beginning is repeated."""
    named: dict[str, Any] = {
        "colleague": message.colleague.email,
        "app": message.app,
        "asked": message.sent.text[:500],
        "text": text,
    }
    if turn.node is None:
        return named
    usage = msgspec.to_builtins(turn.node.usage) if turn.node.usage else None
    return named | {"model": turn.node.model, "usage": usage, "seconds": turn.node.seconds}


@dataclass(frozen=True, slots=True)
class People:
    """Who answers the agent."""

    user: LimitedUser | None
    """Answers its plain messages."""
    colleagues: PlayedColleagues | None
    """Answer what it writes in apps, if a model plays them."""
    roles: PlayedRoles | None = None
    """Answer a foreign program."""


async def open_people(
    env: Declaration, task: Task, world: LiveWorld, played: OpenUser | None, roles: PlayedRoles | None, keeper: Keeper
) -> People:
    """Open the user and the colleagues of a task; `played` opens those whom a model plays. `roles` are open already."""
    user = await open_user(env, task, world, played, keeper)
    return People(user, await _open_colleagues(env, task, world, played, keeper), roles)


async def _open_colleagues(
    env: Declaration, task: Task, world: LiveWorld, played: OpenUser | None, keeper: Keeper
) -> PlayedColleagues | None:
    """Add the task's colleagues to the world and open their models; None if the environment has none."""
    if env.marked.colleagues is None or played is None:
        return PlayedColleagues({}, ()) if env.apps else None
    limits = env.limits.but(task.limits)
    players: dict[str, LimitedUser] = {}
    events: list[Event] = []
    for colleague in await _colleagues_of(env, task):
        world.apps.colleagues.append(colleague)
        assert colleague.persona is not None
        persona = msgspec.structs.replace(colleague.persona, address=colleague.email)
        what = f"colleague `{colleague.email}`"
        user = await keeper.enter(played(persona), limits.provision_s, ModelError, f"opening {what}")
        told = (await user.open()).events
        events += [msgspec.structs.replace(each, detail={**each.detail, "colleague": colleague.email}) for each in told]
        players[colleague.email] = LimitedUser(user, limits.time_s, ModelError, f"the answer of {what}", all_s=limits.time_s)
    return PlayedColleagues(players, events)


async def _colleagues_of(env: Declaration, task: Task) -> list[Colleague]:
    """What the author's function returns for a task without its key."""
    if not env.apps:
        raise ConfigError(
            f"environment `{env.name}` has `@env.colleagues` and no app in which they could be written to; give `apps`"
        )
    assert env.marked.colleagues is not None
    with deadline(env.limits.but(task.limits).setup_s, AuthorError, f"the colleagues of task `{task.id}`"):
        found = list(await author.call(env.marked.colleagues, task.public()))
    for each in found:
        if not isinstance(each, Colleague) or each.persona is None:
            raise AuthorError(
                f"the `@env.colleagues` function returned {each!r:.80}; return `Colleague(email=..., persona=Persona(...))`, and"
                " append scripted ones to `world.apps.colleagues` in the setup"
            )
    if len({each.email for each in found}) < len(found):
        raise AuthorError(f"two of the colleagues of task `{task.id}` have the same address")
    return found
