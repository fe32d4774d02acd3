"""The apps of one world while it lives: their databases, the clock, what is planned, and who acts.

`LiveApps.acting` is the road of every change: a tool call, a page or an event runs in it, as one transaction over all apps. If it
raises, no app, no plan and no clock has changed. Each change goes into one journal with its actor, its time and its cause.

Tools run one after the other, but a program in the sandbox may open pages at any time. `turn` lets one of them act at a time.

`freeze` copies everything into an `AppsSnapshot`, and `LiveApps(apps, snapshot)` starts from one: a copy of bytes.
"""

import re
import sqlite3
import threading
from bisect import insort
from collections.abc import AsyncGenerator, Generator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cached_property
from random import Random
from typing import Any

import anyio

from sandlot.apps.app import App
from sandlot.apps.clock import WorldClock
from sandlot.apps.colleague import Colleague, SentMessage, UnansweredMessage
from sandlot.apps.journal import Cause, RowChange, add_triggers, connect, report_to
from sandlot.apps.pages import PageRequest, PageResponse
from sandlot.core.errors import AuthorError, ConfigError, ToolError
from sandlot.core.ports.world import World
from sandlot.core.types import Json, derive_seed, digest

_MAX_EVENTS = 10_000
"""Events that may happen while one call waits; an event that plans itself again at once would never end."""
_MAX_JOURNAL_BYTES = 32 * 2**20
"""Text and bytes that one world may write; then tools refuse, as a full mailbox does."""
_STEPS = 1_000_000
_MAX_STEPS = 300
"""Millions of SQLite instructions that one tool call may take: a few seconds."""
_TOO_COMPLEX = re.compile(
    r"parser stack overflow|Expression tree is too large|too many (SQL variables|terms|FROM clause terms)|pattern too complex"
    r"|^fts5: |Recursion limit|string or blob too big",
    re.IGNORECASE,
)
"""What SQLite says when a query made of an agent's words passes one of its limits. Other errors are those of an app."""
_PATIENCE_S = 30.0
"""How long one act waits for another."""
_POLL_S = 0.002
_Row = dict[str, Any]
_FAR = 10**300
"""No float is much larger."""
_PAGE_S = 5.0
"""World time that opening a page takes."""


_ACTING: ContextVar["LiveApps | None"] = ContextVar("acting", default=None)
"""The apps whose turn it is in this task or thread."""


@dataclass(frozen=True, slots=True, order=True)
class PlannedEvent:
    """Something that will happen."""

    at: datetime
    number: int
    """Counts the plans of a world, so that events at the same time happen in the order in which they were planned."""
    app: str
    event: str
    data: tuple[tuple[str, Any], ...] = ()


@dataclass(frozen=True)
class AppsSnapshot:
    """The apps of a world at one moment."""

    states: Mapping[str, bytes]
    """Each app's database."""
    now: datetime
    agenda: tuple[PlannedEvent, ...] = ()
    colleagues: tuple[Colleague, ...] = ()
    actor: str = ""
    num_planned: int = 0
    journal: tuple[RowChange, ...] = ()
    undelivered: tuple[PlannedEvent, ...] = ()

    @cached_property
    def digests(self) -> Mapping[str, str]:
        """The hash of each app's database."""
        return {name: digest(state) for name, state in self.states.items()}


@dataclass(frozen=True, slots=True)
class _Kept:
    """What an act that fails puts back, besides the databases."""

    now: datetime
    agenda: tuple[PlannedEvent, ...]
    num_planned: int
    colleagues: tuple[Colleague, ...]
    num_changes: int
    num_bytes: int
    num_undelivered: int
    num_unanswered: int


class LiveApp:
    """One app in one world: the first argument of its tools, events and pages."""

    def __init__(self, app: App, apps: "LiveApps", connection: sqlite3.Connection) -> None:
        self.app = app
        self.name = app.name
        self.apps = apps
        """All apps of the world."""
        self.connection = connection

    @property
    def actor(self) -> str:
        """Who acts: an identity, such as a mail address; empty for none."""
        return self.apps.actor

    @property
    def now(self) -> datetime:
        """World time."""
        return self.apps.clock.now

    @property
    def at(self) -> str:
        """World time as the apps store it: `2026-01-05T09:00:00Z`."""
        return self.apps.clock.text

    @property
    def world(self) -> World:
        """The world, for tools that read or write its files; such tools are `async`."""
        if self.apps.world is None:
            raise AuthorError(f"app `{self.name}` is open without a world, so it has no files")
        return self.apps.world

    def rows(self, sql: str, *values: Any) -> list[dict[str, Any]]:
        """The rows that a query finds, each as a dict. Give values as `?`, never inside the text of the query."""
        return self._run(sql, values).fetchall()

    def one(self, sql: str, *values: Any) -> dict[str, Any] | None:
        """The first row that a query finds, or None."""
        return self._run(sql, values).fetchone()

    def value(self, sql: str, *values: Any) -> Any:
        """The first column of the first row that a query finds, or None."""
        row = self.one(sql, *values)
        return next(iter(row.values())) if row else None

    def run(self, sql: str, *values: Any) -> int:
        """Change rows; the number of rows changed."""
        return self._run(sql, values).rowcount

    def insert(self, table: str, **columns: Any) -> int:
        """Insert one row and return its rowid."""
        names, marks = ", ".join(columns), ", ".join("?" * len(columns))
        return self._run(f"INSERT INTO {table} ({names}) VALUES ({marks})", tuple(columns.values())).lastrowid or 0  # noqa: S608 - names are the author's

    def new_number(self) -> int:
        """A number that this world's app has not used yet: 1, 2, 3, ... It is the same in every rollout with the same acts."""
        number = int(self.value("PRAGMA user_version")) + 1
        self._run(f"PRAGMA user_version = {number}", ())
        return number

    def new_id(self, alphabet: str = "0123456789abcdef", length: int = 16) -> str:
        """A new id that looks random and is the same in every rollout with the same acts."""
        rng = Random(derive_seed("app id", self.name, self.new_number()))  # noqa: S311 - made up, not secret
        return "".join(rng.choices(alphabet, k=length))

    def schedule(self, event: str, after_s: float | None = None, /, *, at: datetime | None = None, **data: Any) -> None:
        """Plan an event of this app, some seconds from now or at a time. `data` is what its function gets; plain data only."""
        if event not in self.app.parts.events:
            known = ", ".join(self.app.parts.events) or "none"
            raise AuthorError(f"app `{self.name}` has no event `{event}`; it has: {known}; mark one with `@app.event`")
        self.apps.plan(self.name, event, at or self.apps.clock.after(after_s or 0.0), data)

    def tell_colleagues(self, sent: SentMessage, reply: str) -> None:
        """Tell the colleagues among those addressed; each that answers does so later, through the event `reply` of this app.

        What is for a colleague whom a model plays waits in `LiveApps.unanswered` until the model has been asked.
        """
        for colleague in self.apps.colleagues:
            if colleague.email in sent.to and colleague.email != sent.sender and self.name in colleague.apps:
                if colleague.persona is not None:
                    waiting = UnansweredMessage(colleague=colleague, sent=sent, app=self.name, reply=reply, at=self.now)
                    self.apps.unanswered.append(waiting)
                    continue
                answer = colleague.answer(sent.text)
                if answer:
                    self.schedule(reply, colleague.minutes * 60, sender=colleague.email, text=answer, about=sent.about)

    def _run(self, sql: str, values: Sequence[Any]) -> sqlite3.Cursor:
        try:
            return self.connection.execute(sql, [_bindable(value) for value in values])
        except sqlite3.OperationalError as error:
            if str(error) == "interrupted":
                raise ToolError("The request took too long and was stopped.") from error
            if _TOO_COMPLEX.search(str(error)):
                raise ToolError("The request is too complex. Ask for less at once.") from error
            raise


def _bindable(value: Any) -> Any:
    """Integers that do not fit into SQLite become floats."""
    return float(min(max(value, -_FAR), _FAR)) if isinstance(value, int) and not -(2**63) <= value < 2**63 else value


class LiveApps:
    """The apps of one world: `world.apps`. Each is an attribute, such as `world.apps.mail`."""

    def __init__(self, apps: Sequence[App], start: AppsSnapshot, world: World | None = None) -> None:
        self.world = world
        self.clock = WorldClock(start.now)
        self.colleagues = list(start.colleagues)
        """People who answer messages."""
        self.actor = start.actor
        """Who the agent acts as. Set it in the setup: `world.apps.actor = "ada@example.com"`."""
        self.journal = list(start.journal)
        self.undelivered = list(start.undelivered)
        """Events that failed because of what the agent had changed, such as a file whose path is now a folder."""
        self.unanswered: list[UnansweredMessage] = []
        """Messages to colleagues whom a model plays, oldest first, of which the model does not know yet."""
        self.depth = 0
        """How many `acting` are open inside each other."""
        self._cause = Cause.SETUP
        self._by: str = ""
        self._lock = threading.Lock()
        self._agenda = list(start.agenda)
        self._num_planned: int = start.num_planned
        self._num_bytes: int = 0
        self._apps = {app.name: LiveApp(app, self, connect(start.states[app.name])) for app in apps}
        for live in self._apps.values():
            report_to(live.connection, self._reporter(live.name))

    def __getattr__(self, name: str) -> LiveApp:
        try:
            return self.__dict__["_apps"][name]
        except KeyError:
            known = ", ".join(self.__dict__.get("_apps", ())) or "none"
            raise AttributeError(f"this world has no app `{name}`; it has: {known}") from None

    def __getitem__(self, name: str) -> LiveApp:
        return self._apps[name]

    def __iter__(self) -> Iterator[LiveApp]:
        return iter(self._apps.values())

    def __contains__(self, name: str) -> bool:
        return name in self._apps

    def begin(self) -> None:
        """The setup is over: from now on, changes are the agent's."""
        self._cause = Cause.AGENT

    @contextmanager
    def turn(self) -> Generator[None]:
        """Wait until no other thread acts, and keep others waiting. Within one's own turn, it does nothing."""
        if _ACTING.get() is self:
            yield
            return
        if not self._lock.acquire(timeout=_PATIENCE_S):
            raise AuthorError(
                f"the apps of this world were busy for {_PATIENCE_S:g} s: does a tool wait for a page of its own world?"
            )
        mark = _ACTING.set(self)
        try:
            yield
        finally:
            _ACTING.reset(mark)
            self._lock.release()

    @asynccontextmanager
    async def async_turn(self) -> AsyncGenerator[None]:
        """The same on the event loop, which other worlds need meanwhile."""
        while not self._lock.acquire(blocking=False):  # noqa: ASYNC110 - a thread releases it, and knows no event loop
            await anyio.sleep(_POLL_S)
        mark = _ACTING.set(self)
        try:
            yield
        finally:
            _ACTING.reset(mark)
            self._lock.release()

    @contextmanager
    def acting(self, by: str, *, actor: str | None = None, cause: Cause | None = None) -> Generator[None]:
        """One act, such as a tool call, as an identity: a transaction over all apps, with the clock and the plans."""
        with self.turn():
            yield from self._acting(by, actor, cause)

    def _acting(self, by: str, actor: str | None, cause: Cause | None) -> Generator[None]:
        before, kept = (self.actor, self._cause, self._by), self._kept()
        self.actor, self._cause, self._by = actor if actor is not None else self.actor, cause or self._cause, by
        self.depth += 1
        self._on_all(f"SAVEPOINT act_{self.depth}")
        if self.depth == 1:
            self._limit_steps(_MAX_STEPS if self._cause is Cause.AGENT else None)
        done = False
        try:
            yield
            done = True
        finally:
            if not done:
                self._on_all(f"ROLLBACK TO act_{self.depth}" if self.depth > 1 else "ROLLBACK")
                self._restore(kept)
            if done or self.depth > 1:
                self._on_all(f"RELEASE act_{self.depth}")
            self.depth -= 1
            self.actor = before[0] if actor is not None or not done else self.actor
            self._cause, self._by = before[1], before[2]

    def _kept(self) -> "_Kept":
        return _Kept(
            now=self.clock.now,
            agenda=tuple(self._agenda),
            num_planned=self._num_planned,
            colleagues=tuple(self.colleagues),
            num_changes=len(self.journal),
            num_bytes=self._num_bytes,
            num_undelivered=len(self.undelivered),
            num_unanswered=len(self.unanswered),
        )

    def _restore(self, kept: "_Kept") -> None:
        self.clock.now, self._num_planned, self._num_bytes = kept.now, kept.num_planned, kept.num_bytes
        self._agenda, self.colleagues = list(kept.agenda), list(kept.colleagues)
        del self.journal[kept.num_changes :]
        del self.undelivered[kept.num_undelivered :]
        del self.unanswered[kept.num_unanswered :]

    def plan(self, app: str, event: str, at: datetime, data: Json) -> None:
        """Plan an event of an app. One in the past happens as soon as time passes."""
        self._num_planned += 1
        insort(
            self._agenda,
            PlannedEvent(at, self._num_planned, app, event, tuple(sorted(data.items()))),
            key=lambda each: (each.at, each.number),
        )

    @property
    def agenda(self) -> Sequence[PlannedEvent]:
        """What is planned, soonest first."""
        return tuple(self._agenda)

    def pass_time(self, seconds: float) -> int:
        """Let time pass. Events that are due happen one after the other, each at its time. Returns how many did."""
        with self.turn():
            return self._pass_time(seconds)

    def _pass_time(self, seconds: float) -> int:
        until = self.clock.after(seconds)
        for count in range(_MAX_EVENTS):
            if not self._agenda or self._agenda[0].at > until:
                self.clock.now = until
                return count
            event = self._agenda.pop(0)
            self.clock.now = max(self.clock.now, event.at)
            self._happen(event)
        raise AuthorError(
            f"more than {_MAX_EVENTS} events happened within {timedelta(seconds=seconds)}; does one plan itself again?"
        )

    def _happen(self, event: PlannedEvent) -> None:
        """Run an event. One that raises `ToolError` changes nothing: it is the author's error unless the agent acted before."""
        live = self._apps[event.app]
        try:
            with self.acting(event.event, actor="", cause=Cause.EVENT):
                live.app.parts.events[event.event](live, **dict(event.data))
        except ToolError as error:
            if not any(change.cause is Cause.AGENT for change in self.journal):
                raise AuthorError(
                    f"event `{event.event}` of app `{event.app}` raised a ToolError, which no agent sees: {error}"
                ) from error
            self.undelivered.append(event)

    def respond(self, app: str, request: PageRequest) -> PageResponse:
        """The page of an app for a request, as the identity that asks."""
        live = self._apps[app]
        found = live.app.parts.routes.find(request)
        if found is None:
            return PageResponse.error(404, f"There is no page {request.path}.")
        respond, fields = found
        try:
            with self.turn():
                self.pass_time(_PAGE_S)
                with self.acting(f"{request.method} {request.path}", actor=request.actor):
                    response = respond(live, request, **fields)
                    self.require_room()
                    return response
        except ToolError as error:
            return PageResponse.error(400, str(error))

    def freeze(self) -> AppsSnapshot:
        """A copy of everything, from which other worlds can start."""
        if self.depth:
            raise AuthorError("the apps cannot be copied in the middle of a tool call or an event")
        return AppsSnapshot(
            states={name: live.connection.serialize() for name, live in self._apps.items()},
            now=self.clock.now,
            agenda=tuple(self._agenda),
            colleagues=tuple(self.colleagues),
            actor=self.actor,
            num_planned=self._num_planned,
            journal=tuple(self.journal),
            undelivered=tuple(self.undelivered),
        )

    def close(self) -> None:
        """Free the memory. Nothing can be asked of the apps after it."""
        for live in self._apps.values():
            live.connection.close()
            del live.apps  # they hold each other, and Python frees such a cycle much later
        self.world = None

    def _on_all(self, sql: str) -> None:
        for live in self._apps.values():
            live.connection.execute(sql)

    def _reporter(self, app: str) -> Any:
        def report(table: str, row: int, before: _Row | None, after: _Row | None, moved: int | None) -> None:
            self._num_bytes += sum(len(value) for value in (after or {}).values() if isinstance(value, str | bytes))
            change = RowChange(
                app=app,
                table=table,
                row=row,
                before=before,
                after=after,
                actor=self.actor,
                at=self.clock.text,
                cause=self._cause,
                by=self._by,
                moved=moved,
            )
            self.journal.append(change)

        return report

    def require_room(self) -> None:
        """`ToolError` if this world has written all that it may."""
        if self._num_bytes > _MAX_JOURNAL_BYTES:
            raise ToolError("The storage quota of this account has been used up.")

    def _limit_steps(self, most: int | None) -> None:
        """Stop a query that runs for seconds: a hostile search must not hold up other rollouts."""
        left = most or 0

        def stop() -> int:
            nonlocal left
            left -= 1
            return int(left < 0)

        for live in self._apps.values():
            live.connection.set_progress_handler(stop if most else None, _STEPS)


def empty_snapshot(apps: Sequence[App]) -> AppsSnapshot:
    """The apps with empty tables. `ConfigError` if a schema is wrong."""
    states: dict[str, bytes] = {}
    for app in apps:
        if app.name in states:
            raise ConfigError(f"two apps are named `{app.name}`; give one of them another name")
        connection = connect()
        try:
            connection.execute("PRAGMA application_id = 1")  # an empty database cannot be copied
            connection.executescript(app.schema)
            add_triggers(connection, app.name)
        except sqlite3.Error as error:
            raise ConfigError(f"the schema of app `{app.name}` is not valid SQL: {error}") from error
        states[app.name] = connection.serialize()
        connection.close()
    return AppsSnapshot(states=states, now=WorldClock().now)
