"""The apps of a finished rollout, as evidence: stored as base states and a journal, read by checks as tables and changes.

What is stored of a rollout is small: the digests of the base states, whose bytes are stored once for all rollouts, and the
journal of its changes. Checks get the final state again: base state + journal, verified row by row.
"""

import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from sandlot.apps.journal import Cause, RowChange, connect, replay
from sandlot.core.errors import GradeError

_DECODER = msgspec.msgpack.Decoder(tuple[RowChange, ...])


def encode_journal(journal: Sequence[RowChange]) -> bytes:
    """The journal as it is stored."""
    return msgspec.msgpack.encode(journal)


class FinalApp:
    """One app at the end of a rollout: `evidence.apps.mail`. It can only be read."""

    def __init__(self, name: str, base: bytes, journal: Sequence[RowChange]) -> None:
        self.name = name
        self._base = base
        self._journal = [change for change in journal if change.app == name]
        self._final: sqlite3.Connection | None = None
        self._start: sqlite3.Connection | None = None

    def rows(self, sql: str, *values: Any) -> list[dict[str, Any]]:
        """The rows that a query finds in the final state, each as a dict."""
        if self._final is None:
            self._final = self._opened(self._journal)
        return self._final.execute(sql, values).fetchall()

    def one(self, sql: str, *values: Any) -> dict[str, Any] | None:
        """The first row that a query finds in the final state, or None."""
        found = self.rows(sql, *values)
        return found[0] if found else None

    def value(self, sql: str, *values: Any) -> Any:
        """The first column of the first row that a query finds in the final state, or None."""
        row = self.one(sql, *values)
        return next(iter(row.values())) if row else None

    def start_rows(self, sql: str, *values: Any) -> list[dict[str, Any]]:
        """The rows that a query finds in the state in which the agent began."""
        if self._start is None:
            self._start = self._opened([change for change in self._journal if change.cause is Cause.SETUP])
        return self._start.execute(sql, values).fetchall()

    def changes(self, table: str | None = None, *, cause: Cause | str | None = Cause.AGENT) -> list[RowChange]:
        """What the agent changed, in order; of one table, if named. `cause=None` adds what the setup and events changed."""
        return [
            change
            for change in self._journal
            if (table is None or change.table == table) and (cause is None or change.cause == cause)
        ]

    def _opened(self, changes: Sequence[RowChange]) -> sqlite3.Connection:
        connection = connect(self._base)
        replay(connection, self.name, changes)
        connection.execute("PRAGMA query_only=ON")
        return connection

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_final": None, "_start": None}  # an isolated check opens its own


class FinalApps:
    """The apps at the end of a rollout: `evidence.apps`."""

    def __init__(self, bases: Mapping[str, bytes], journal: bytes, now: str) -> None:
        try:
            self._journal = _DECODER.decode(journal)
        except msgspec.DecodeError as error:
            raise GradeError(f"the stored journal of the apps cannot be read: {error}") from error
        self.now = now
        """World time at the end."""
        self._apps = {name: FinalApp(name, base, self._journal) for name, base in bases.items()}

    def __getattr__(self, name: str) -> FinalApp:
        apps: Mapping[str, FinalApp] = self.__dict__.get("_apps", {})
        if name not in apps:
            raise AttributeError(f"the evidence has no app `{name}`; it has: {', '.join(apps) or 'none'}")
        return apps[name]

    def __getitem__(self, name: str) -> FinalApp:
        return self._apps[name]

    def __iter__(self) -> Iterator[FinalApp]:
        return iter(self._apps.values())

    def changes(self, *, cause: Cause | str | None = Cause.AGENT) -> list[RowChange]:
        """What the agent changed in all apps, in order. `cause=None` adds what the setup and events changed."""
        return [change for change in self._journal if cause is None or change.cause == cause]
