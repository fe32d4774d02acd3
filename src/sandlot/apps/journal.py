"""The journal: every row that changed in the apps of a world, with the row before and after, who changed it, when and why.

Triggers on every table report each insert, update and delete, so no tool can change an app without leaving a trace. A journal is
small, and base state + journal = final state: `replay` applies it and fails if a row is not what the journal says it was.
"""

import sqlite3
from collections.abc import Callable, Iterable, Sequence
from enum import StrEnum
from typing import Any

import msgspec

from sandlot.core.errors import ConfigError, GradeError

_MAX_COLUMNS = 60
"""SQLite functions take at most 127 arguments, and a change reports each column before and after."""
_FUNCTION = "sandlot_journal"


class Cause(StrEnum):
    """What a change came from."""

    SETUP = "setup"  # the environment's setup, before the agent acted
    AGENT = "agent"  # a tool call or a page of the agent
    EVENT = "event"  # time: mail arrived, a colleague answered, a deadline passed


class RowChange(msgspec.Struct, frozen=True, kw_only=True):
    """One row that was inserted, updated or deleted."""

    app: str
    table: str
    row: int
    """SQLite's rowid; of a row that got another one, the old one."""
    before: dict[str, Any] | None
    """The row before; None if it was inserted."""
    after: dict[str, Any] | None
    """The row after; None if it was deleted."""
    actor: str
    """Who did it: an identity, such as a mail address; empty for none."""
    at: str
    """World time."""
    cause: Cause
    by: str = ""
    """The tool, page or event that did it: `send_email`."""
    moved: int | None = None
    """The new rowid of a row that got another one."""

    @property
    def kind(self) -> str:
        """`insert`, `update` or `delete`."""
        return "insert" if self.before is None else "delete" if self.after is None else "update"


_Report = Callable[[str, int, dict[str, Any] | None, dict[str, Any] | None, int | None], None]
"""Called with each change: table, row, before, after, and the new rowid of a row that got another one."""


def connect(base: bytes | None = None) -> sqlite3.Connection:
    """An SQLite database in memory, from the bytes of another one if given."""
    connection = sqlite3.connect(":memory:", check_same_thread=False, isolation_level=None, cached_statements=64)
    if base is not None:
        connection.deserialize(base)
    connection.execute("PRAGMA recursive_triggers=ON")  # or `INSERT OR REPLACE` would delete rows without a report
    connection.row_factory = _as_dict
    return connection


def _as_dict(cursor: sqlite3.Cursor, row: tuple[Any, ...]) -> dict[str, Any]:
    return {column[0]: value for column, value in zip(cursor.description, row, strict=True)}


def tables_of(connection: sqlite3.Connection) -> dict[str, tuple[str, ...]]:
    """The columns of every table of the app. Search indexes are not among them: they follow from the tables."""
    rows = connection.execute(
        "SELECT name FROM pragma_table_list WHERE type = 'table' AND schema = 'main' ORDER BY name"
    ).fetchall()
    names = [row["name"] for row in rows if not row["name"].startswith("sqlite_")]
    return {name: tuple(row["name"] for row in connection.execute(f"PRAGMA table_info({_quoted(name)})")) for name in names}


def add_triggers(connection: sqlite3.Connection, app: str) -> None:
    """Make every table report its changes. `ConfigError` for a table that cannot."""
    tables = tables_of(connection)
    for row in connection.execute(
        "SELECT name FROM pragma_table_list WHERE wr = 1 AND schema = 'main' AND type = 'table'"
    ).fetchall():
        raise ConfigError(
            f"app `{app}`: table `{row['name']}` is `WITHOUT ROWID`; changes are recorded by rowid, so leave that out"
        )
    for table, columns in tables.items():
        if len(columns) > _MAX_COLUMNS:
            raise ConfigError(f"app `{app}`: table `{table}` has {len(columns)} columns; at most {_MAX_COLUMNS} can be recorded")
        old, new = (", ".join(f"{side}.{_quoted(column)}" for column in columns) for side in ("old", "new"))
        text = "'" + table.replace("'", "''") + "'"
        for verb, rows, values in (
            ("INSERT", "NULL, new.rowid", new),
            ("UPDATE", "old.rowid, new.rowid", f"{old}, {new}"),
            ("DELETE", "old.rowid, NULL", old),
        ):
            connection.execute(
                f"CREATE TRIGGER {_quoted(f'sandlot_{verb.lower()}_{table}')} AFTER {verb} ON {_quoted(table)}"
                f" BEGIN SELECT {_FUNCTION}({text}, {rows}, {values}); END"
            )


def report_to(connection: sqlite3.Connection, report: _Report) -> None:
    """Call `report` with every change of a row from now on."""
    tables = tables_of(connection)

    def reported(table: str, old: int | None, new: int | None, *values: Any) -> None:
        columns = tables[table]
        before = dict(zip(columns, values, strict=False)) if old is not None else None
        after = dict(zip(columns, values[len(columns) if old is not None else 0 :], strict=True)) if new is not None else None
        moved = new if old is not None and new != old else None
        if before != after:
            report(table, (new or 0) if old is None else old, before, after, moved)

    connection.create_function(_FUNCTION, -1, reported)


def replay(connection: sqlite3.Connection, app: str, changes: Iterable[RowChange]) -> None:
    """Apply the changes of one app to its base state. `GradeError` if a row is not what the journal says it was."""
    report_to(connection, lambda _table, _row, _before, _after, _moved: None)
    tables = tables_of(connection)
    connection.execute("BEGIN")
    for number, change in enumerate(changes):
        if change.table not in tables:
            raise GradeError(f"app `{app}` has no table `{change.table}`, which change {number} is about; was it renamed?")
        _apply(connection, app, tables[change.table], change)
    connection.execute("COMMIT")


def _apply(connection: sqlite3.Connection, app: str, columns: Sequence[str], change: RowChange) -> None:
    table = _quoted(change.table)

    def row_at(row: int) -> dict[str, Any] | None:
        return connection.execute(f"SELECT * FROM {table} WHERE rowid = ?", (row,)).fetchone()  # noqa: S608 - a table of the schema

    found = row_at(change.row)
    if found == change.after if change.moved is None else found is None and row_at(change.moved) == change.after:
        return  # a trigger of the app did it already
    if found != change.before:
        raise GradeError(
            f"app `{app}`: row {change.row} of `{change.table}` is not what the journal says; is the base state another?"
        )
    if change.after is None:
        connection.execute(f"DELETE FROM {table} WHERE rowid = ?", (change.row,))  # noqa: S608 - as above
        return
    values = [change.after.get(column) for column in columns]
    if change.before is None:
        names = ", ".join(map(_quoted, columns))
        marks = ", ".join("?" * len(columns))
        own = [column for column in columns if column.lower() == "rowid"]
        sql = f"INSERT INTO {table} ({'' if own else 'rowid, '}{names}) VALUES ({'' if own else '?, '}{marks})"  # noqa: S608 - as above
        connection.execute(sql, values if own else [change.row, *values])
        return
    sets = ", ".join(f"{_quoted(column)} = ?" for column in columns)
    connection.execute(f"UPDATE {table} SET {sets} WHERE rowid = ?", [*values, change.row])  # noqa: S608 - as above


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
