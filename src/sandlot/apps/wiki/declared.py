"""The wiki: its tables and declaration, and who may read and change what."""

from sandlot.apps.app import App
from sandlot.apps.atlassian import atlassian_tools, pydantic_text
from sandlot.apps.live import LiveApp
from sandlot.apps.recorded import RecordedServer
from sandlot.core.errors import ToolError
from sandlot.core.types import Json

SCHEMA = """
CREATE TABLE person (account_id TEXT PRIMARY KEY, display_name TEXT NOT NULL, email TEXT NOT NULL UNIQUE,
  active INTEGER NOT NULL DEFAULT 1);
CREATE TABLE space (key TEXT PRIMARY KEY, id TEXT NOT NULL, name TEXT NOT NULL, type TEXT NOT NULL DEFAULT 'global',
  description TEXT NOT NULL DEFAULT '');
-- who may do what: read, write or admin; account `*` is everyone. A space without rows is open to all people for writing.
CREATE TABLE permission (space TEXT NOT NULL, account_id TEXT NOT NULL, level TEXT NOT NULL, UNIQUE (space, account_id));
-- content is Markdown, as the tools show it
CREATE TABLE page (id INTEGER PRIMARY KEY, space TEXT NOT NULL, title TEXT NOT NULL, parent INTEGER, position INTEGER NOT NULL
  DEFAULT 0,
  content TEXT NOT NULL, version INTEGER NOT NULL DEFAULT 1, created TEXT NOT NULL, creator TEXT, updated TEXT NOT NULL, author
  TEXT,
  emoji TEXT, UNIQUE (space, title));
CREATE INDEX page_parent ON page (parent);
CREATE TABLE page_version (page INTEGER NOT NULL, number INTEGER NOT NULL, title TEXT NOT NULL, content TEXT NOT NULL, at TEXT
  NOT NULL,
  author TEXT, message TEXT NOT NULL DEFAULT '', minor INTEGER NOT NULL DEFAULT 0, UNIQUE (page, number));
CREATE TABLE label (page INTEGER NOT NULL, name TEXT NOT NULL, UNIQUE (page, name));
CREATE TABLE comment (id INTEGER PRIMARY KEY, page INTEGER NOT NULL, author TEXT, body TEXT NOT NULL, created TEXT NOT NULL,
  updated TEXT NOT NULL, parent INTEGER);
-- people who alone may read, or change (update), a page; no rows: everyone who may use the space
CREATE TABLE restriction (page INTEGER NOT NULL, operation TEXT NOT NULL, account_id TEXT NOT NULL, UNIQUE (page, operation,
  account_id));
CREATE VIRTUAL TABLE page_words USING fts5(title, content, tokenize = 'porter unicode61');
CREATE TRIGGER words_insert AFTER INSERT ON page BEGIN
  INSERT INTO page_words (rowid, title, content) VALUES (new.id, new.title, new.content); END;
CREATE TRIGGER words_update AFTER UPDATE OF title, content ON page BEGIN
  UPDATE page_words SET title = new.title, content = new.content WHERE rowid = new.id; END;
CREATE TRIGGER words_delete AFTER DELETE ON page BEGIN DELETE FROM page_words WHERE rowid = old.id; END;
"""

WIKI = App("wiki", schema=SCHEMA, server=RecordedServer.read("confluence"), word_issues=pydantic_text)
"""Pages in spaces, as in Confluence."""
wiki_tool = atlassian_tools(WIKI, "confluence")
_LEVELS = ("read", "write", "admin")
MAX_CONTENT = 1_000_000
"""Characters of a page."""


def actor_id(app: LiveApp) -> str | None:
    """The account of the one who acts; None without an identity."""
    return app.value("SELECT account_id FROM person WHERE email = ? COLLATE NOCASE OR account_id = ?", app.actor, app.actor)


def level_in(app: LiveApp, space: str) -> int:
    """What the actor may do in a space: 0 nothing, 1 read, 2 write, 3 admin. Without an identity, everything."""
    if not app.actor:
        return 3
    rows = app.rows("SELECT account_id, level FROM permission WHERE space = ?", space)
    mine = [_LEVELS.index(row["level"]) + 1 for row in rows if row["account_id"] in {"*", actor_id(app)}]
    return max(mine, default=0) if rows else 2


def may(app: LiveApp, page: Json, operation: str) -> bool:
    """True if the actor may read or update a page: the space allows it, and so do the page and the pages above it."""
    if level_in(app, page["space"]) < (1 if operation == "read" else 2):
        return False
    if not app.actor:
        return True
    above: Json | None = page
    for _ in range(100):
        if above is None:
            return True
        checked = ("read",) if above is not page or operation == "read" else ("read", "update")
        for each in checked:
            rows = app.rows("SELECT account_id FROM restriction WHERE page = ? AND operation = ?", above["id"], each)
            if rows and actor_id(app) not in {row["account_id"] for row in rows}:
                return False
        above = app.one("SELECT * FROM page WHERE id = ?", above["parent"])
    return True


def find_space(app: LiveApp, key: str, *, write: bool = False) -> Json:
    """A space by its key; `ToolError` if there is none that the actor may use."""
    row = app.one("SELECT * FROM space WHERE key = ?", key)
    if row is None or not level_in(app, key):
        raise ToolError(f"No space with key : {key[:60]}")
    if write and level_in(app, key) < 2:
        raise ToolError(f"You do not have permission to create or change pages in the space {key}.")
    return row


def find_page(app: LiveApp, page_id: str, *, write: bool = False) -> Json:
    """A page by its id; `ToolError` if there is none that the actor may read, or change."""
    row = app.one("SELECT * FROM page WHERE CAST(id AS TEXT) = ?", str(page_id).strip())
    if row is None or not may(app, row, "read"):
        raise ToolError(f"No content found with id: ContentId{{id={str(page_id)[:40]}}}")
    if write and not may(app, row, "update"):
        raise ToolError(f"You do not have permission to change the page {page_id}.")
    return row


def find_person(app: LiveApp, name: str) -> str:
    """The account that an account id, an email or a display name means; `ToolError` if there is none."""
    found = app.value(
        "SELECT account_id FROM person WHERE account_id = ?1 OR email = ?1 COLLATE NOCASE OR display_name = ?1", name
    )
    if found is None:
        raise ToolError(f"No user found: {name[:80]}")
    return str(found)
