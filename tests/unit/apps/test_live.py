"""Apps in a world: acts are whole or nothing, time passes by stated amounts, a copy is the same bytes."""

import sqlite3
from datetime import UTC, datetime, timedelta

import anyio
import anyio.lowlevel
import anyio.to_thread
import pytest

from sandlot.apps.app import App
from sandlot.apps.journal import Cause
from sandlot.apps.live import LiveApp, LiveApps, empty_snapshot
from sandlot.apps.pages import PageRequest, PageResponse
from sandlot.apps.waiting import WAITING
from sandlot.core.errors import AuthorError, ConfigError, ToolError
from worlds.apps import AppWorld

NOTES = App("notes", schema="CREATE TABLE note (id TEXT UNIQUE, owner TEXT, text TEXT)")
LOG = App("log", schema="CREATE TABLE line (text TEXT, at TEXT)")


@NOTES.tool
def add_note(app: LiveApp, text: str, fails: bool = False) -> str:
    """Keep a note, and log it."""
    app.insert("note", id=app.new_id(), owner=app.actor, text=text)
    app.apps["log"].insert("line", text=f"note by {app.actor}", at=app.at)
    app.schedule("reminded", 600, text=text)
    if fails:
        raise ToolError("no room")
    return "kept"


@NOTES.event
def reminded(app: LiveApp, text: str) -> None:
    app.apps["log"].insert("line", text=f"remember {text}", at=app.at)


@NOTES.event
def never_ends(app: LiveApp) -> None:
    app.schedule("never_ends", 0)


@NOTES.event
def refuses(app: LiveApp) -> None:
    app.apps["log"].insert("line", text="half done", at=app.at)
    raise ToolError(f"nothing for {app.actor}")


def world() -> AppWorld:
    return AppWorld([NOTES, LOG, WAITING], actor="ada")


async def test_a_call_that_fails_changes_nothing_in_any_app():
    opened = world()
    before = opened.apps.freeze()
    result = await opened.result("add_note", text="x", fails=True)
    assert result.error
    assert result.text == "no room"
    after = opened.apps.freeze()
    assert dict(after.states) == dict(before.states)
    assert after.journal == before.journal == ()
    assert after.agenda == ()
    assert await opened.call("add_note", text="y") == "kept"


async def test_changes_name_the_actor_the_time_the_tool_and_the_cause():
    opened = world()
    await opened.call("add_note", text="x")
    await opened.call("wait", minutes=20)
    notes = [(change.app, change.table, change.kind, change.actor, change.by, change.cause) for change in opened.apps.journal]
    assert notes == [
        ("notes", "note", "insert", "ada", "add_note", Cause.AGENT),
        ("log", "line", "insert", "ada", "add_note", Cause.AGENT),
        ("log", "line", "insert", "", "reminded", Cause.EVENT),
    ]
    assert [change.at for change in opened.apps.journal] == [
        "2026-01-05T09:00:20Z",
        "2026-01-05T09:00:20Z",
        "2026-01-05T09:10:20Z",  # ten minutes after the note, though the agent waited for twenty
    ]


async def test_time_passes_only_by_calls_and_events_happen_in_order():
    opened = world()
    for number in range(3):
        opened.apps.notes.schedule("reminded", 3600 - number, text=str(number))
    await opened.call("wait", minutes=59)
    assert not opened.apps.log.rows("SELECT * FROM line")
    await opened.call("wait", minutes=1)
    assert [row["text"] for row in opened.apps.log.rows("SELECT text FROM line")] == ["remember 2", "remember 1", "remember 0"]
    assert opened.apps.clock.now == datetime(2026, 1, 5, 10, 0, 2, tzinfo=UTC)


async def test_a_copy_goes_on_with_the_same_ids_times_and_plans():
    one = world()
    await one.call("add_note", text="first")
    copy = AppWorld([NOTES, LOG, WAITING], actor="ada")
    copy.apps = LiveApps(copy.declared, one.apps.freeze())
    copy.apps.begin()
    for opened in (one, copy):
        await opened.call("add_note", text="second")
        await opened.call("wait", minutes=60)
    assert dict(one.apps.freeze().states) == dict(copy.apps.freeze().states)
    assert one.apps.journal == copy.apps.journal
    assert len({row["id"] for row in one.apps.notes.rows("SELECT id FROM note")}) == 2


async def test_a_wait_must_have_a_length():
    opened = world()
    for minutes in (0, -5, 1e9):
        assert (await opened.result("wait", minutes=minutes)).error


def test_an_event_that_plans_itself_again_at_once_is_found():
    opened = world()
    opened.apps.notes.schedule("never_ends", 1)
    with pytest.raises(AuthorError, match="plan itself again"):
        opened.apps.pass_time(10)


def test_a_tool_error_in_an_event_is_the_authors():
    opened = world()
    opened.apps.notes.schedule("refuses", 1)
    with pytest.raises(AuthorError, match="which no agent sees"):
        opened.apps.pass_time(10)


async def test_a_tool_error_in_an_event_after_the_agent_acted_undoes_the_event_only():
    opened = world()
    await opened.call("add_note", text="x")
    opened.apps.notes.schedule("refuses", 1)
    opened.apps.pass_time(601)
    assert [row["text"] for row in opened.apps.log.rows("SELECT text FROM line")] == ["note by ada", "remember x"]
    assert [event.event for event in opened.apps.undelivered] == ["refuses"]
    assert opened.apps.agenda == ()


def test_wrong_declarations_are_refused():
    with pytest.raises(ConfigError, match="not valid SQL"):
        empty_snapshot([App("bad", schema="CREATE TABLE (")])
    with pytest.raises(ConfigError, match="WITHOUT ROWID"):
        empty_snapshot([App("bad", schema="CREATE TABLE t (a PRIMARY KEY) WITHOUT ROWID")])
    with pytest.raises(ConfigError, match="two apps"):
        empty_snapshot([NOTES, NOTES])
    with pytest.raises(ConfigError, match="app name"):
        App("Two Words")
    with pytest.raises(ConfigError, match="no tool `fly`"):
        NOTES.offering("fly")
    with pytest.raises(AttributeError, match="it has: notes, log, waiting"):
        _ = world().apps.mail


def test_an_app_can_offer_some_of_its_tools():
    assert list(WAITING.offering("wait").parts.tools) == ["wait"]
    assert list(WAITING.parts.tools) == ["current_time", "wait"]


async def test_pages_and_tools_at_the_same_time_take_turns():
    """A program in the sandbox may open pages while tools run: no act sees half of another, and none is lost."""
    opened = AppWorld([PAGED, LOG, WAITING], actor="ada")

    async def tools() -> None:
        for _ in range(30):
            await opened.call("count_up")
            await opened.call("count_up_later")

    def pages() -> None:
        for _ in range(60):
            assert opened.apps.respond("paged", PageRequest(method="POST", path="/up", actor="bob")).status == 200

    async with anyio.create_task_group() as group:
        for _ in range(2):
            group.start_soon(anyio.to_thread.run_sync, pages)
        group.start_soon(tools)
    assert opened.apps.paged.value("SELECT total FROM counter") == 180
    assert [(change.before or {}).get("total", 0) for change in opened.apps.journal if change.table == "counter"] == list(
        range(180)
    )
    assert {change.actor for change in opened.apps.journal} == {"ada", "bob"}
    assert opened.apps.clock.now == datetime(2026, 1, 5, 9, 0, tzinfo=UTC) + timedelta(seconds=60 * 20 + 120 * 5)


PAGED = App("paged", schema="CREATE TABLE counter (total INTEGER)")


def add_one(app: LiveApp) -> None:
    total = app.value("SELECT total FROM counter")
    if total is None:
        app.insert("counter", total=1)
    else:
        app.run("UPDATE counter SET total = ?", total + 1)


@PAGED.tool
def count_up(app: LiveApp) -> str:
    """Count."""
    add_one(app)
    return "ok"


@PAGED.tool
async def count_up_later(app: LiveApp) -> str:
    """Count, with a pause in the middle."""
    total = app.value("SELECT total FROM counter") or 0
    await anyio.lowlevel.checkpoint()
    add_one(app)
    assert app.value("SELECT total FROM counter") == total + 1
    return "ok"


@PAGED.page("POST", "/up")
def up(app: LiveApp, _request: PageRequest) -> PageResponse:
    add_one(app)
    return PageResponse()


@PAGED.page("POST", "/fill")
def fill_up(app: LiveApp, request: PageRequest) -> PageResponse:
    app.apps["log"].insert("line", text=request.form["text"], at=app.at)
    return PageResponse()


def test_a_query_that_is_too_complex_is_the_agents_error_and_a_wrong_one_the_apps():
    notes = world().apps.notes
    with pytest.raises(ToolError, match="too complex"):
        notes.rows("SELECT " + "(" * 5000 + "1" + ")" * 5000)
    with pytest.raises(ToolError, match="too complex"):
        notes.rows("SELECT 1 WHERE " + " OR ".join(["1"] * 5000))
    with pytest.raises(sqlite3.OperationalError, match="no such column"):
        notes.rows("SELECT lost FROM note")


def test_a_page_writes_no_more_than_the_quota():
    opened = AppWorld([PAGED, LOG], actor="ada")
    request = PageRequest(method="POST", path="/fill", form={"text": "x" * 8 * 2**20})
    responses = [opened.apps.respond("paged", request) for _ in range(5)]
    assert [response.status for response in responses] == [200, 200, 200, 400, 400]
    assert b"storage quota" in responses[-1].body
    assert opened.apps.log.value("SELECT count(*) FROM line") == 3
