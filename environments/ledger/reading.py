"""Reading a database on someone else's behalf: a query that can neither write, nor reach a file, nor run for long.

SQLite asks the authorizer about every table and function while it prepares a statement, and calls the progress handler while
it runs one. Small limits on lengths keep any single step short, so that counting steps bounds the time.
"""

import json
import sqlite3
from itertools import count

STEPS = 2_000_000  # of SQLite's virtual machine: tens of milliseconds
ROWS, CHARS = 200, 12_000
LIMITS = {
    sqlite3.SQLITE_LIMIT_LENGTH: 4_000,
    sqlite3.SQLITE_LIMIT_SQL_LENGTH: 10_000,
    sqlite3.SQLITE_LIMIT_COLUMN: 50,
    sqlite3.SQLITE_LIMIT_EXPR_DEPTH: 50,
    sqlite3.SQLITE_LIMIT_COMPOUND_SELECT: 10,
    sqlite3.SQLITE_LIMIT_LIKE_PATTERN_LENGTH: 100,
    sqlite3.SQLITE_LIMIT_ATTACHED: 0,
}
HARMLESS = {sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_RECURSIVE}
FUNCTIONS = {
    *("abs", "avg", "count", "max", "min", "round", "sign", "sum", "total", "rank", "row_number"),
    *("group_concat", "instr", "length", "lower", "ltrim", "replace", "rtrim", "substr", "trim", "upper"),
    *("coalesce", "glob", "ifnull", "iif", "like", "nullif"),
}


def only_reading(db: sqlite3.Connection) -> None:
    """From now on this connection can only read, and only so much."""
    for limit, value in LIMITS.items():
        db.setlimit(limit, value)
    db.text_factory = lambda data: data.decode(errors="replace")
    db.set_authorizer(allowed)
    ticks = count()
    db.set_progress_handler(lambda: next(ticks) >= STEPS // 1000, 1000)


def allowed(action: int, _table: str | None, name: str | None, *_: str | None) -> int:
    fine = action in HARMLESS or (action == sqlite3.SQLITE_FUNCTION and str(name).lower() in FUNCTIONS)
    return sqlite3.SQLITE_OK if fine else sqlite3.SQLITE_DENY


def rows_as_json(cursor: sqlite3.Cursor) -> str:
    """Columns and rows as JSON, and a word if there was more than is shown."""
    rows, size = [], 0
    for row in cursor:
        size += len(str(row))
        if len(rows) == ROWS or size > CHARS:
            return json.dumps(
                {"columns": names(cursor), "rows": rows, "note": f"cut after {len(rows)} rows"}, ensure_ascii=False, default=str
            )
        rows.append(row)
    return json.dumps({"columns": names(cursor), "rows": rows}, ensure_ascii=False, default=str)


def names(cursor: sqlite3.Cursor) -> list[str]:
    return [column[0] for column in cursor.description or ()]
