"""The journal: base state + journal = final state, whatever was done."""

import sqlite3
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandlot.apps.app import App
from sandlot.apps.final import FinalApps, encode_journal
from sandlot.core.errors import GradeError
from worlds.apps import AppWorld, dump

SHOP = App(
    "shop",
    schema="""
    CREATE TABLE item (id INTEGER PRIMARY KEY, name TEXT UNIQUE, price REAL, picture BLOB);
    CREATE TABLE tag (item INTEGER, tag TEXT, UNIQUE (item, tag));
    CREATE TABLE total (id INTEGER PRIMARY KEY, items INTEGER);
    CREATE VIRTUAL TABLE item_text USING fts5 (name, content='item', content_rowid='id');
    CREATE TRIGGER item_in AFTER INSERT ON item BEGIN
      INSERT INTO item_text (rowid, name) VALUES (new.id, new.name);
      UPDATE total SET items = items + 1;
    END;
    CREATE TRIGGER item_out AFTER DELETE ON item BEGIN
      INSERT INTO item_text (item_text, rowid, name) VALUES ('delete', old.id, old.name);
      UPDATE total SET items = items - 1;
    END;
    """,
)
NAMES = st.sampled_from(["ash", "oak", "elm", "fir'; DROP TABLE item; --", "", "\x00", "œuvre"])
VALUES = st.one_of(
    st.none(), st.integers(-(2**63), 2**63 - 1), st.floats(allow_nan=False), st.text(max_size=5), st.binary(max_size=5)
)
ACTS = st.one_of(
    st.tuples(st.just("INSERT OR REPLACE INTO item (name, price, picture) VALUES (?, ?, ?)"), NAMES, VALUES, VALUES),
    st.tuples(st.just("INSERT OR IGNORE INTO tag VALUES (?, ?)"), st.integers(1, 4), NAMES),
    st.tuples(st.just("UPDATE item SET price = ?, picture = ? WHERE name = ?"), VALUES, VALUES, NAMES),
    st.tuples(st.just("UPDATE OR REPLACE item SET id = id + ? WHERE name = ?"), st.integers(0, 3), NAMES),
    st.tuples(st.just("DELETE FROM item WHERE name = ?"), NAMES),
    st.tuples(st.just("DELETE FROM tag WHERE item > ?"), st.integers(0, 4)),
)


def final_of(opened: AppWorld) -> FinalApps:
    return FinalApps(opened.base.states, encode_journal(opened.apps.journal), opened.apps.clock.text)


def filled() -> AppWorld:
    return AppWorld([SHOP], lambda apps: apps.shop.insert("total", id=1, items=0) and None)


@given(st.lists(st.tuples(ACTS, st.booleans()), max_size=25))
def test_the_journal_replayed_is_the_final_state(acts: list[tuple[tuple[Any, ...], bool]]):
    """Against a slow twin: the same statements on a plain database without a journal."""
    opened = filled()
    twin = sqlite3.connect(":memory:", isolation_level=None)
    twin.executescript(SHOP.schema)
    twin.execute("PRAGMA recursive_triggers=ON")
    twin.execute("INSERT INTO total VALUES (1, 0)")
    twin.row_factory = lambda cursor, row: {column[0]: value for column, value in zip(cursor.description, row, strict=True)}
    for (sql, *values), undone in acts:
        with suppress(KeyError), opened.apps.acting("act"):
            opened.apps.shop.run(sql, *values)
            if undone:
                raise KeyError
        if not undone:
            twin.execute(sql, values)
    final = final_of(opened).shop
    expected = dump(lambda sql: twin.execute(sql).fetchall())
    assert dump(opened.apps.shop.rows) == expected
    assert dump(final.rows) == expected
    found = "SELECT rowid FROM item_text WHERE item_text MATCH 'oak'"
    assert final.rows(found) == twin.execute(found).fetchall()


def test_replaying_on_another_base_is_an_error():
    opened = filled()
    opened.apps.shop.run("UPDATE total SET items = 5")
    other = AppWorld([SHOP], lambda apps: apps.shop.insert("total", id=1, items=3) and None)
    final = FinalApps(other.base.states, encode_journal(opened.apps.journal), "")
    with pytest.raises(GradeError, match="is not what the journal says"):
        final.shop.rows("SELECT * FROM total")


def test_a_broken_journal_is_an_error():
    with pytest.raises(GradeError, match="cannot be read"):
        FinalApps({}, b"\x00", "")


def test_the_final_state_cannot_be_changed():
    final = final_of(filled()).shop
    with pytest.raises(sqlite3.OperationalError, match="readonly"):
        final.rows("DELETE FROM total")
