"""Checks of an SQLite file that the agent left: the rows of a query, one value, the tables and columns.

The file is hostile. It is read from memory, never opened on disk; nothing can be written, attached or loaded; a query is
interrupted after a number of steps; values, rows and the file have size limits. Views, virtual tables and generated columns run
code that the agent wrote, so a query that reads one is not met.
"""

import contextlib
import sqlite3
import sys
from collections.abc import Generator, Iterable, Mapping, Sequence
from typing import Any

from sandlot.checks.found import Said, equal_values, shown
from sandlot.core.errors import NotInEvidence
from sandlot.core.ports.grading import Evidence

_MAX_FILE_BYTES = 128 * 2**20
_MAX_VALUE_BYTES = 2**20
_MAX_ROWS = 10_000
_MAX_RESULT_BYTES = 64 * 2**20
"""In memory, of all rows of a query: rows of a crafted file can share their bytes, so a small file can hold many large values."""
_MAX_MATCHED_ROWS = 1000
_MAX_STEPS = 20_000_000
"""Instructions of SQLite's virtual machine: about a second."""
_STEPS_PER_LOOK = 10_000
_HEADER = b"SQLite format 3\x00"
_WAL_VERSIONS = slice(18, 20)
_ALLOWED = {sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_FUNCTION, sqlite3.SQLITE_RECURSIVE}
_FUNCTIONS_DENIED = {"load_extension", "readfile", "writefile", "edit", "fts3_tokenizer", "randomblob", "zeroblob"}


def sql_rows(
    evidence: Evidence, path: str, query: str, rows: Sequence[Sequence[Any]], *, ordered: bool = False, tolerance: float = 0.0
) -> Said:
    """The author's query on the agent's SQLite file gives exactly these rows, in any order unless `ordered`.

    >>> sql_rows(evidence, "/out/shop.db", "select name, stock from goods where stock > 0", [["tea", 3], ["oil", 1]])
    (True, '2 rows are as expected')
    """
    found = _ask(evidence, path, query)
    expected = [list(row) for row in rows]
    if len(found) != len(expected):
        return False, f"the query gives {len(found)} rows, not {len(expected)}"
    if not ordered:
        found, expected = sorted(found, key=_sort_key), sorted(expected, key=_sort_key)
    if not ordered and tolerance and len(found) <= _MAX_MATCHED_ROWS:
        found = _arrange(found, expected, tolerance)
    wrong = next((pair for pair in zip(found, expected, strict=True) if not equal_values(*pair, tolerance)), None)
    if wrong is not None:
        return False, f"a row is {shown(wrong[0])}, not {shown(wrong[1])}"
    return True, f"{len(found)} rows are as expected"


def sql_value(evidence: Evidence, path: str, query: str, value: Any, *, tolerance: float = 0.0) -> Said:
    """The author's query on the agent's SQLite file gives one row with one column, and it is `value`.

    >>> sql_value(evidence, "/out/shop.db", "select sum(stock) from goods", 4)
    (True, "the query gives '4'")
    """
    found = _ask(evidence, path, query)
    if len(found) != 1 or len(found[0]) != 1:
        return False, f"the query gives {len(found)} rows, not one value"
    return equal_values(found[0][0], value, tolerance), f"the query gives {shown(found[0][0])}"


def sql_schema(evidence: Evidence, path: str, tables: Mapping[str, Sequence[str]], *, others: bool = True) -> Said:
    """The SQLite file has these real tables with at least these columns; with `others=False`, no other table.

    >>> sql_schema(evidence, "/out/shop.db", {"goods": ["name", "stock"]})
    (True, 'the tables are: goods')
    """
    with _opened(evidence, path) as database:
        there: dict[str, list[str]] = {name: [] for name in _real_tables(database, path)}
        columns = (
            (name, column) for name in there for (column,) in database.execute("select name from pragma_table_xinfo(?)", (name,))
        )
        for name, column in _taken(columns, path, _MAX_ROWS * 10):
            there[name].append(str(column))
    wrong = [f"no table `{name}`" for name in tables if name not in there]
    wrong += [f"`{name}` has no column `{column}`" for name, columns in tables.items() for column in columns
              if name in there and column not in there[name]]  # fmt: skip
    wrong += [f"table `{name}` is not expected" for name in there if name not in tables] if not others else []
    return not wrong, "; ".join(wrong[:3]) or f"the tables are: {', '.join(sorted(there))}"


def _ask(evidence: Evidence, path: str, query: str) -> list[list[Any]]:
    """The rows of the author's query. What the agent's file does wrong is `NotInEvidence`; what the query does, `ValueError`."""
    with _opened(evidence, path) as database:
        real = {name.casefold() for name in _real_tables(database, path)}
        denied: list[str] = []

        def authorize(action: int, first: str | None, second: str | None, _base: str | None, inner: str | None) -> int:
            name = (first or "").casefold()
            if action not in _ALLOWED or (action == sqlite3.SQLITE_FUNCTION and (second or "").casefold() in _FUNCTIONS_DENIED):
                denied.append(f"action {action} ({second or first})")
                return sqlite3.SQLITE_DENY
            if action == sqlite3.SQLITE_READ and (inner is not None or (name and name not in real and name != "sqlite_master")):
                denied.append(f"`{inner or first}`, which is not a plain table")
                return sqlite3.SQLITE_DENY
            return sqlite3.SQLITE_OK

        database.set_authorizer(authorize)
        try:
            found = _taken(database.execute(query), path, _MAX_ROWS)
        except sqlite3.Error as error:
            why = f"it reads {denied[0]}" if denied else str(error)
            raise NotInEvidence(f"the query on `{path}` failed: {why}") from error
        except (OverflowError, UnicodeDecodeError) as error:
            raise NotInEvidence(f"the query on `{path}` failed: {error}") from error
    return [[value.hex() if isinstance(value, bytes) else value for value in row] for row in found]


@contextlib.contextmanager
def _opened(evidence: Evidence, path: str) -> Generator[sqlite3.Connection]:
    """The agent's database in memory, with every limit set."""
    data = evidence.read(path)
    if not data.startswith(_HEADER) or len(data) > _MAX_FILE_BYTES:
        raise NotInEvidence(f"`{path}` is no SQLite file of at most {_MAX_FILE_BYTES >> 20} MiB ({len(data):,} bytes)")
    if evidence.kind(f"{path}-wal") == "file" and evidence.read(f"{path}-wal"):
        raise NotInEvidence(f"`{path}-wal` has changes that were not written into `{path}`; close the database first")
    if data[_WAL_VERSIONS] == b"\x02\x02":
        data = data[:18] + b"\x01\x01" + data[20:]  # write-ahead mode needs a file on disk; nothing is in the log
    database = sqlite3.connect(":memory:", isolation_level=None)
    looks = 0

    def count() -> int:
        nonlocal looks
        looks += 1
        return int(looks * _STEPS_PER_LOOK > _MAX_STEPS)

    try:
        database.deserialize(data)
        database.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _MAX_VALUE_BYTES)
        database.setlimit(sqlite3.SQLITE_LIMIT_ATTACHED, 0)
        database.setlimit(sqlite3.SQLITE_LIMIT_WORKER_THREADS, 0)
        for pragma in ("trusted_schema = off", "cell_size_check = on", "query_only = on", "temp_store = memory"):
            database.execute(f"pragma {pragma}")
        database.set_progress_handler(count, _STEPS_PER_LOOK)
        yield database
    except (sqlite3.Error, UnicodeDecodeError) as error:
        raise NotInEvidence(f"`{path}` cannot be read as SQLite: {error}") from error
    finally:
        database.close()


def _taken(rows: Iterable[Sequence[Any]], path: str, most: int) -> list[Sequence[Any]]:
    """The rows, taken one by one until there are too many or they are too large."""
    found, size = list[Sequence[Any]](), 0
    for row in rows:
        size += sum(map(sys.getsizeof, row))
        if len(found) >= most:
            raise NotInEvidence(f"a query on `{path}` gives more than {most:,} rows", kind="cut")
        if size > _MAX_RESULT_BYTES:
            raise NotInEvidence(f"a query on `{path}` gives more than {_MAX_RESULT_BYTES >> 20} MiB", kind="cut")
        found.append(row)
    return found


def _real_tables(database: sqlite3.Connection, path: str) -> list[str]:
    """Names of the tables that only hold what was put into them."""
    rows = database.execute("select name from sqlite_master where type = 'table' and rootpage > 0")
    plain: list[str] = []
    for (name,) in _taken(rows, path, _MAX_ROWS):
        columns = database.execute("select 1 from pragma_table_xinfo(?) where hidden limit 1", (name,))
        if isinstance(name, str) and columns.fetchone() is None:
            plain.append(name)
    return plain


def _sort_key(row: Sequence[Any]) -> list[tuple[str, Any]]:
    return [("0", float(value)) if isinstance(value, int | float) else ("1", str(value)) for value in row]


def _arrange(found: list[list[Any]], expected: list[list[Any]], tolerance: float) -> list[list[Any]]:
    """The rows in the order of the expected ones: near numbers may sort differently."""
    left, arranged = list(found), list[list[Any]]()
    for row in expected:
        place = next((number for number, each in enumerate(left) if equal_values(each, row, tolerance)), 0)
        arranged.append(left.pop(place))
    return arranged
