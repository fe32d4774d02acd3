"""The books: a SQLite database held in one file of the world, the same for setup, tools and checks.

Money is whole euro cents. Debits are positive, credits negative, and the lines of an entry sum to zero. Entries are never
edited: a wrong one is reversed by another entry.
"""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager

BOOKS = "/data/books.db"
REPORT = "/out/report.json"

ACCOUNTS = {
    "1000": ("Bank", "moves only with what the bank carries out"),
    "1100": ("Receivables", "what customers owe, gross"),
    "1300": ("Equipment", "single things over 800.00 net that last for years"),
    "1400": ("Input VAT 20 %", "VAT on purchases"),
    "1410": ("Input VAT 10 %", "VAT on purchases at the reduced rate"),
    "2000": ("Payables", "what we owe suppliers, gross"),
    "2200": ("Output VAT 20 %", "VAT on sales; goes back when a sale is refunded"),
    "2210": ("Output VAT 10 %", "VAT on sales at the reduced rate; goes back when a sale is refunded"),
    "3000": ("Equity", "opening balances only"),
    "4000": ("Sales", "net"),
    "4100": ("Sales refunded", "net; the VAT goes back through 2200 or 2210"),
    "5000": ("Goods", "what we sell on, net"),
    "6000": ("Rent", "no VAT"),
    "6100": ("Office supplies", "what is used up within a year, and things up to 800.00 net"),
    "6200": ("Travel", "net"),
    "6300": ("Software", "net; foreign suppliers charge no VAT"),
    "6400": ("Bank fees", "no VAT"),
    "6500": ("Exchange differences", "between a foreign invoice and what the bank took for it"),
    "7000": ("Interest received", "no VAT"),
}

SCHEMA = """
create table accounts (code text primary key, name text, note text);
create table rates (month text, currency text, micros integer);  -- millionths of a euro for one unit
create table months (month text primary key, status text);  -- open, closed
create table entries (id integer primary key, date text, party text, reference text, memo text, reverses integer);
create table lines (entry integer, account text, cents integer);
create table bank_lines (id integer primary key, date text, text text, cents integer, entry integer);
create view live as select * from entries
  where reverses is null and id not in (select reverses from entries where reverses is not null);
"""


@contextmanager
def opened(data: bytes) -> Iterator[sqlite3.Connection]:
    """The database in these bytes, in memory: what happens to it is lost unless it is serialized again."""
    db = sqlite3.connect(":memory:")
    try:
        db.deserialize(data)
        yield db
    finally:
        db.close()


def lines_of(db: sqlite3.Connection, entry: int) -> dict[str, int]:
    """An entry's lines by account."""
    return dict(db.execute("select account, sum(cents) from lines where entry = ? group by account", [entry]))


def balances(db: sqlite3.Connection) -> dict[str, int]:
    """Every account's balance, the untouched ones too."""
    sums = "select code, coalesce(sum(cents), 0) from accounts left join lines on account = code group by code"
    return dict(db.execute(sums))
