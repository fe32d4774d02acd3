"""The rows of an app by table and column, and what all changes of a rollout together came to."""

from collections.abc import Sequence
from typing import Any

from sandlot.apps import LiveApp

Row = dict[str, Any]

UNGRADED = frozenset({"basket", "checkout", "draft", "session"})
"""Tables that hold what is not decided yet: baskets, unconfirmed forms, who is signed in."""


class Records:
    """The tables of one app."""

    def __init__(self, app: LiveApp) -> None:
        self.app = app

    @property
    def today(self) -> str:
        return self.app.at[:10]

    def rows(self, table: str, **where: Any) -> list[Row]:
        clause = " AND ".join(f"{name} = ?" for name in where) or "1"
        return self.app.rows(f"SELECT * FROM {table} WHERE {clause} ORDER BY id", *where.values())  # noqa: S608 - names are ours

    def first(self, table: str, **where: Any) -> Row | None:
        return next(iter(self.rows(table, **where)), None)

    def row(self, table: str, number: Any) -> Row | None:
        return self.first(table, id=int(number)) if str(number).isdecimal() and len(str(number)) < 10 else None

    def add(self, table: str, **values: Any) -> int:
        return self.app.insert(table, **values)

    def change(self, table: str, number: int, **values: Any) -> None:
        clause = ", ".join(f"{name} = ?" for name in values)
        self.app.run(f"UPDATE {table} SET {clause} WHERE id = ?", *values.values(), number)  # noqa: S608 - names are ours

    def remove(self, table: str, number: int) -> None:
        self.app.run(f"DELETE FROM {table} WHERE id = ?", number)  # noqa: S608 - names are ours

    def clear(self, table: str) -> None:
        self.app.run(f"DELETE FROM {table}")  # noqa: S608 - names are ours


def net_changes(changes: Sequence[Any]) -> list[Row]:
    """For each row that ended up different: app, table, and how it began and ended (None: there was none).

    The database gives the number of a deleted row to the next one, so a row that is inserted is always another one. A row that
    was deleted and entered again as it was is no change.
    """
    rows: list[Row] = []
    current: dict[tuple[str, str, int], Row] = {}
    for change in changes:
        if change.table in UNGRADED:
            continue
        place = (change.app, change.table, change.row)
        if place not in current or change.before is None:
            current[place] = {"app": change.app, "table": change.table, "before": change.before, "after": None}
            rows.append(current[place])
        current[place]["after"] = change.after
    different = [row for row in rows if row["before"] != row["after"]]
    for row in [row for row in different if row["after"] is None]:
        again = next((each for each in different if each["before"] is None and _is_same(row, each)), None)
        if again is not None:
            different.remove(row)
            different.remove(again)
    return different


def _is_same(deleted: Row, entered: Row) -> bool:
    if (deleted["app"], deleted["table"]) != (entered["app"], entered["table"]):
        return False
    return {**deleted["before"], "id": 0} == {**entered["after"], "id": 0}
