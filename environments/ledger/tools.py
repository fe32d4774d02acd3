"""What the bookkeeper can do. Every change is checked as a bookkeeping program would check it, then written back whole."""

import datetime as dt
import json
import sqlite3
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager

from sandlot import ToolError, World

from .books import BOOKS, REPORT, lines_of, opened
from .reading import only_reading, rows_as_json

LARGEST_CENTS = 10**12


async def query(world: World, sql: str) -> str:
    """Run one read-only SQL query. Gives columns and rows as JSON, at most 200 rows; long queries are interrupted."""
    with opened(await world.read(BOOKS)) as db, told():
        only_reading(db)
        return rows_as_json(db.execute(sql))


async def post_entry(world: World, date: str, party: str, reference: str, memo: str, lines: dict[str, int]) -> str:
    """Post a new entry.

    date: YYYY-MM-DD, in an open month
    lines: cents by account, debits positive, credits negative, summing to zero
    """
    async with changing(world) as db:
        require_open(db, date)
        known = {code for (code,) in db.execute("select code from accounts")}
        if unknown := sorted(set(lines) - known):
            raise ToolError(f"no account {', '.join(unknown)[:80]}; there are: {', '.join(sorted(known))}")
        if len(lines) < 2 or sum(lines.values()) != 0 or any(not 0 < abs(cents) <= LARGEST_CENTS for cents in lines.values()):
            raise ToolError(f"the lines {str(lines)[:200]} must be two or more, none of them zero or huge, and sum to zero")
        if any(len(text) > 200 for text in (party, reference, memo)):
            raise ToolError("party, reference and memo have room for 200 characters each")
        return f"Posted entry {insert(db, [date, party, reference, memo, None], lines)}."


async def reverse_entry(world: World, entry: int) -> str:
    """Reverse an entry: the same lines with the opposite sign, on the same date. Bank lines matched to it become open again."""
    async with changing(world) as db:
        found = db.execute("select date, party, reference, memo from live where id = ?", [entry]).fetchone()
        if found is None:
            raise ToolError(f"entry {entry} does not exist, is reversed already, or is itself a reversal")
        require_open(db, found[0])
        mirrored = {account: -cents for account, cents in lines_of(db, entry).items()}
        number = insert(db, [*found[:3], f"reversal of {entry}", entry], mirrored)
        db.execute("update bank_lines set entry = null where entry = ?", [entry])
        return f"Entry {entry} is reversed by entry {number}."


async def match_bank_line(world: World, line: int, entry: int) -> str:
    """Say which entry a bank line belongs to; an earlier match of the line is replaced."""
    async with changing(world) as db:
        if db.execute("select 1 from entries where id = ?", [entry]).fetchone() is None:
            raise ToolError(f"there is no entry {entry}")
        if db.execute("update bank_lines set entry = ? where id = ?", [entry, line]).rowcount == 0:
            raise ToolError(f"there is no bank line {line}")
        return f"Bank line {line} belongs to entry {entry}."


async def close_month(world: World, month: str) -> str:
    """Close a month (YYYY-MM). Nothing can be posted into it or reversed in it afterwards."""
    async with changing(world) as db:
        require_open(db, f"{month}-01")
        db.execute("update months set status = 'closed' where month = ?", [month])
        return f"{month} is closed."


async def write_report(
    world: World,
    month: str,
    reversed_entries: list[int],
    balances: dict[str, int],
    vat: dict[str, int],
    bank: dict[str, int],
    summary: str,
) -> str:
    """Write the month's report. Money is in cents.

    reversed_entries: the entries you reversed, in ascending order
    balances: every account's balance by its code, debits positive
    vat: output_standard, output_reduced, input_standard, input_reduced, all positive, and payable (output less input)
    bank: statement (its closing balance), books (account 1000) and outstanding (books less statement)
    summary: what was wrong and what you did about it, in a few sentences
    """
    report = {"month": month, "reversed": reversed_entries, "balances": balances, "vat": vat, "bank": bank, "summary": summary}
    with told():
        text = json.dumps(report, indent=2)
    if len(text) > 20_000:
        raise ToolError(f"the report has {len(text)} characters; 20000 are enough")
    await world.write(REPORT, text)
    return f"Wrote {REPORT}."


@asynccontextmanager
async def changing(world: World) -> AsyncIterator[sqlite3.Connection]:
    """The books, open for one change: written back whole if it succeeds, not at all if it fails."""
    with opened(await world.read(BOOKS)) as db:
        with told():
            yield db
            db.commit()
        await world.write(BOOKS, db.serialize())


@contextmanager
def told() -> Iterator[None]:
    """What the database or the codec refuses, the agent reads."""
    try:
        yield
    except (sqlite3.Error, sqlite3.Warning, ValueError, OverflowError) as error:
        raise ToolError(f"{type(error).__name__}: {error}") from error


def require_open(db: sqlite3.Connection, day: str) -> None:
    month = dt.date.fromisoformat(day).isoformat()[:7]
    if db.execute("select status from months where month = ?", [month]).fetchone() != ("open",):
        raise ToolError(f"{month} is not an open month")


def insert(db: sqlite3.Connection, values: list, lines: dict[str, int]) -> int | None:
    columns = "insert into entries (date, party, reference, memo, reverses) values (?, ?, ?, ?, ?)"
    number = db.execute(columns, values).lastrowid
    db.executemany("insert into lines values (?, ?, ?)", [(number, account, cents) for account, cents in lines.items()])
    return number
