"""Calendars and events: who sees what, instances of events that repeat, and how an event is shown.

An event is stored once, in the calendar of its organizer; it also shows in the main calendar of everyone it invites. Someone's
main calendar has their mail address as its id.
"""

import json
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from typing import Any

from sandlot.apps.app import App
from sandlot.apps.calendar.recurrence import read_rule, stamp_of, starts_of
from sandlot.apps.calendar.times import EventTime
from sandlot.apps.clock import time_text
from sandlot.apps.issues import ArgumentIssue, zod_lines
from sandlot.apps.live import LiveApp
from sandlot.apps.recorded import RecordedServer, RecordedTool
from sandlot.core.errors import ToolError
from sandlot.core.types import Json

SCHEMA = """
CREATE TABLE calendar (
  id TEXT NOT NULL UNIQUE, owner TEXT NOT NULL, summary TEXT NOT NULL, description TEXT NOT NULL, time_zone TEXT NOT NULL,
  is_main INTEGER NOT NULL
);
CREATE TABLE access (
  calendar TEXT NOT NULL, person TEXT NOT NULL, role TEXT NOT NULL CHECK (role IN ('owner', 'writer', 'reader')),
  UNIQUE (calendar, person)
);
CREATE TABLE event (
  id TEXT NOT NULL UNIQUE, calendar TEXT NOT NULL, organizer TEXT NOT NULL, summary TEXT NOT NULL, description TEXT,
  location TEXT, start TEXT NOT NULL, end TEXT NOT NULL, start_zone TEXT NOT NULL, end_zone TEXT NOT NULL,
  status TEXT NOT NULL DEFAULT 'confirmed', transparency TEXT, visibility TEXT, recurrence TEXT, series TEXT, original_start TEXT,
  details TEXT NOT NULL DEFAULT '{}', created TEXT NOT NULL, updated TEXT NOT NULL, sequence INTEGER NOT NULL DEFAULT 0
);
CREATE TABLE attendee (
  event TEXT NOT NULL, email TEXT NOT NULL, name TEXT, response TEXT NOT NULL, optional INTEGER NOT NULL DEFAULT 0, comment TEXT,
  hidden INTEGER NOT NULL DEFAULT 0, UNIQUE (event, email)
);
CREATE INDEX event_calendar ON event (calendar, start);
CREATE INDEX event_series ON event (series);
CREATE INDEX attendee_email ON attendee (email);
"""
_ID_LETTERS = "abcdefghijklmnopqrstuv0123456789"
_LONGEST = timedelta(days=400)
"""Of an event of a series: an instance that began longer ago is not looked for."""
_FAR = timedelta(days=366 * 2)
"""How far ahead events that repeat are listed, if a query names no end."""


def _mcp_error(tool: RecordedTool, issues: Sequence[ArgumentIssue]) -> str:
    return f"MCP error -32602: Input validation error: Invalid arguments for tool {tool.name}: {zod_lines(issues)}"


CALENDAR = App("calendar", schema=SCHEMA, server=RecordedServer.read("google-calendar"), word_issues=_mcp_error)


def request_error(text: str) -> ToolError:
    """An error that the public server reports as a wrong request."""
    return ToolError(f"MCP error -32600: {text}")


NOT_FOUND = "Resource not found: Not Found"


# -- calendars ---------------------------------------------------------------------------------------------------------


def add_calendar(
    app: LiveApp, owner: str, summary: str = "", *, time_zone: str = "UTC", description: str = "", main: bool = True
) -> str:
    """Add a calendar; its id. A person's main calendar has their address as its id."""
    person = owner.lower()
    calendar = person if main else f"c_{app.new_id(_ID_LETTERS, 26)}@group.calendar.google.com"
    app.insert(
        "calendar",
        id=calendar,
        owner=person,
        summary=summary or person,
        description=description,
        time_zone=time_zone,
        is_main=int(main),
    )
    return calendar


def share_calendar(app: LiveApp, calendar: str, person: str, role: str = "reader") -> None:
    """Let a person read (`reader`) or change (`writer`) a calendar; `*` for everyone."""
    app.run("INSERT OR REPLACE INTO access VALUES (?, ?, ?)", calendar, person.lower(), role)


def calendars_of(app: LiveApp) -> list[dict[str, Any]]:
    """The calendars that the actor may see, the own main one first, each with the actor's `role`."""
    rows = app.rows("SELECT * FROM calendar ORDER BY is_main DESC, rowid")
    seen = [row | {"role": role} for row in rows if (role := role_in(app, row))]
    return sorted(seen, key=lambda row: not (row["is_main"] and row["owner"] == app.actor))


def role_in(app: LiveApp, row: dict[str, Any]) -> str | None:
    """What the actor may do in a calendar: `owner`, `writer`, `reader`, or None."""
    if row["owner"] == app.actor:
        return "owner"
    found = {
        each["role"]
        for each in app.rows("SELECT role FROM access WHERE calendar = ? AND person IN (?, '*')", row["id"], app.actor)
    }
    return next((role for role in ("owner", "writer", "reader") if role in found), None)


def calendar_named(app: LiveApp, name: str, *, write: bool = False) -> dict[str, Any]:
    """A calendar by id, `primary` or name, that the actor may read, or write; `ToolError` if there is none."""
    mine = calendars_of(app)
    if name == "primary":
        found = [row for row in mine if row["is_main"] and row["owner"] == app.actor]
    else:
        found = [row for row in mine if row["id"] == name] or [row for row in mine if row["summary"].lower() == name.lower()]
    if not found and name != "primary" and "@" not in name:
        known = ", ".join(f'"{row["summary"]}" ({row["id"]})' for row in mine) or "none"
        hint = "Use 'list-calendars' tool to see all available calendars."
        raise request_error(f'Calendar "{name}" not found. Available calendars: {known}. {hint}')
    if not found:
        raise request_error(NOT_FOUND)
    if write and found[0]["role"] == "reader":
        raise request_error("Access denied: You need to have writer access to this calendar.")
    return found[0]


# -- events ------------------------------------------------------------------------------------------------------------


def events_in(app: LiveApp, calendar: dict[str, Any], begin: datetime | None, end: datetime | None) -> list[dict[str, Any]]:
    """The events of a calendar that touch a span of time, by start. Events that repeat are given as their instances."""
    first, last = begin or datetime.min.replace(tzinfo=app.now.tzinfo), end or max(app.now, begin or app.now) + _FAR
    found: list[dict[str, Any]] = []
    for row in _stored(app, calendar):
        found += instances_of(app, row, first, last) if row["recurrence"] else [row]
    spans = [(row, start_of(row).moment, end_of(row).moment) for row in found]
    kept = [(row, start) for row, start, stop in spans if start < last and (stop > first or (start == stop and start >= first))]
    return [row for row, _ in sorted(kept, key=lambda each: (each[1], each[0]["id"])) if row["status"] != "cancelled"]


def _stored(app: LiveApp, calendar: dict[str, Any]) -> list[dict[str, Any]]:
    """The events stored for a calendar: its own, and for a main calendar those that its owner is invited to."""
    return app.rows(
        "SELECT * FROM event WHERE calendar = ?1 OR (?2 AND id IN (SELECT event FROM attendee WHERE email = ?3 AND NOT hidden))"
        " ORDER BY start, id",
        calendar["id"], calendar["is_main"], calendar["owner"],
    )  # fmt: skip


def instances_of(app: LiveApp, row: dict[str, Any], begin: datetime, end: datetime) -> Iterator[dict[str, Any]]:
    """The instances of an event that repeats, without those that were changed or cancelled: these are events of their own."""
    changed = {each["original_start"] for each in app.rows("SELECT original_start FROM event WHERE series = ?", row["id"])}
    start = start_of(row)
    length = end_of(row).moment - start.moment
    earliest = begin - min(length, _LONGEST) if begin.year > 1 else begin
    for each in starts_of(start, json.loads(row["recurrence"]), earliest, end):
        if each.text not in changed:
            yield _instance(row, each)


def _instance(row: dict[str, Any], start: EventTime) -> dict[str, Any]:
    length = end_of(row).moment - start_of(row).moment
    stop = (
        end_of(row).moved(start.moment - start_of(row).moment)
        if start.all_day
        else EventTime(time_text(start.moment + length), row["end_zone"])
    )
    return row | {
        "id": f"{row['id']}_{stamp_of(start)}",
        "start": start.text,
        "end": stop.text,
        "recurrence": None,
        "series": row["id"],
        "original_start": start.text,
        "stored": row["id"],
    }


def event_named(app: LiveApp, calendar: dict[str, Any], event: str) -> dict[str, Any] | None:
    """An event of a calendar by id, or an instance of one that repeats; None if there is none."""
    rows = {row["id"]: row for row in _stored(app, calendar)}
    if event in rows:
        return rows[event] if rows[event]["status"] != "cancelled" else None
    base, _, stamp = event.rpartition("_")
    row = rows.get(base)
    if row is None or not row["recurrence"]:
        return None
    far = app.now + timedelta(days=366 * 10)
    begin = start_of(row).moment
    return next((each for each in instances_of(app, row, begin, far) if each["id"] == f"{base}_{stamp}"), None)


def start_of(row: dict[str, Any]) -> EventTime:
    """When an event begins."""
    return EventTime(row["start"], row["start_zone"])


def end_of(row: dict[str, Any]) -> EventTime:
    """When an event ends."""
    return EventTime(row["end"], row["end_zone"])


def write_event(app: LiveApp, event: Json, attendees: Sequence[Json] = ()) -> str:
    """Store a new event with its attendees; its id. `event` has the columns of the table; id and dates are added."""
    name = event.get("id") or app.new_id(_ID_LETTERS, 26)
    app.insert("event", **event | {"id": name, "created": app.at, "updated": app.at})
    set_attendees(app, name, event["organizer"], attendees)
    return name


def set_attendees(app: LiveApp, event: str, organizer: str, attendees: Sequence[Json]) -> None:
    """Replace the attendees of an event; who was invited before keeps the answer."""
    known = {row["email"]: row for row in app.rows("SELECT * FROM attendee WHERE event = ?", event)}
    wanted = {each["email"].lower(): each for each in attendees}
    if wanted and organizer not in wanted:
        wanted = {organizer: {"email": organizer, "responseStatus": "accepted"}} | wanted
    for email in sorted(known.keys() - wanted.keys()):
        app.run("DELETE FROM attendee WHERE event = ? AND email = ?", event, email)
    for email, each in wanted.items():
        if email not in known:
            response = "accepted" if email == organizer else each.get("responseStatus") or "needsAction"
            app.insert(
                "attendee",
                event=event,
                email=email,
                name=each.get("displayName"),
                response=response,
                optional=int(bool(each.get("optional"))),
                comment=each.get("comment"),
            )


def attendees_of(app: LiveApp, row: dict[str, Any]) -> list[dict[str, Any]]:
    """The attendees of an event; of an instance, those of its series."""
    return app.rows("SELECT * FROM attendee WHERE event = ? ORDER BY rowid", row.get("stored") or row["id"])


def copy_instance(app: LiveApp, instance: dict[str, Any]) -> dict[str, Any]:
    """Store an instance as an event of its own, to change it alone."""
    columns = {name: value for name, value in instance.items() if name not in {"stored", "role"}}
    app.insert("event", **columns)
    for each in attendees_of(app, instance):
        app.insert("attendee", **each | {"event": instance["id"]})
    return columns


def busy_in(
    app: LiveApp, calendar: dict[str, Any], begin: datetime, end: datetime, *, without: str = ""
) -> list[tuple[datetime, datetime]]:
    """When a calendar is busy, joined: events that block time and that its owner has not declined."""
    spans: list[tuple[datetime, datetime]] = []
    for row in events_in(app, calendar, begin, end):
        declined = any(each["email"] == calendar["owner"] and each["response"] == "declined" for each in attendees_of(app, row))
        if row["transparency"] == "transparent" or declined or row["id"] == without:
            continue
        start, stop = max(start_of(row).moment, begin), min(end_of(row).moment, end)
        if spans and start <= spans[-1][1]:
            spans[-1] = (spans[-1][0], max(spans[-1][1], stop))
        else:
            spans.append((start, stop))
    return spans


def is_rule(line: str) -> bool:
    """True for a line of a recurrence that can be read."""
    return line.upper().startswith(("EXDATE", "RDATE")) or read_rule(line) is not None


def shown_event(app: LiveApp, row: dict[str, Any], calendar: dict[str, Any], fields: Sequence[str] | None = None) -> Json:
    """An event as the public server shows it. A private event of someone else shows only its time."""
    organizer = row["organizer"]
    attendees = attendees_of(app, row)
    hidden = row["visibility"] in {"private", "confidential"} and app.actor not in {
        organizer,
        *(each["email"] for each in attendees),
    }
    start, stop = start_of(row), end_of(row)
    shown: Json = {
        "id": row["id"],
        "summary": None if hidden else row["summary"],
        "description": None if hidden else row["description"],
        "location": None if hidden else row["location"],
        "start": start.shown(),
        "end": stop.shown(),
        "startDayOfWeek": start.day_name(),
        "endDayOfWeek": stop.day_name(),
        "status": row["status"],
        "htmlLink": f"https://www.google.com/calendar/event?eid={row['id']}",
        "created": f"{row['created'][:-1]}.000Z",
        "updated": f"{row['updated'][:-1]}.000Z",
        "creator": _person(app, organizer),
        "organizer": _person(app, organizer),
        "attendees": [_shown_attendee(app, each, organizer) for each in attendees] if attendees and not hidden else None,
        "recurrence": json.loads(row["recurrence"]) if row["recurrence"] else None,
        "recurringEventId": row["series"],
        "originalStartTime": EventTime(row["original_start"], row["start_zone"]).shown() if row["original_start"] else None,
        "transparency": row["transparency"],
        "visibility": row["visibility"],
        "iCalUID": f"{row['series'] or row['id']}@google.com",
        "sequence": row["sequence"],
    }
    shown |= {} if hidden else json.loads(row["details"])
    kept = {name: value for name, value in shown.items() if value is not None}
    if fields:
        wanted = {*_DEFAULT_FIELDS, *fields, "startDayOfWeek", "endDayOfWeek"}
        kept = {name: value for name, value in kept.items() if name in wanted}
    return kept | {"calendarId": calendar["id"], "accountId": ACCOUNT}


ACCOUNT = "normal"
"""The nickname of the one account that is connected, as the public server names it."""
_DEFAULT_FIELDS = ("id", "summary", "start", "end", "status", "htmlLink", "location", "attendees")


def _person(app: LiveApp, email: str) -> Json:
    return {"email": email} | ({"self": True} if email == app.actor else {})


def _shown_attendee(app: LiveApp, row: dict[str, Any], organizer: str) -> Json:
    shown = {
        "email": row["email"],
        "displayName": row["name"],
        "responseStatus": row["response"],
        "optional": True if row["optional"] else None,
        "organizer": True if row["email"] == organizer else None,
        "self": True if row["email"] == app.actor else None,
        "comment": row["comment"],
    }
    return {name: value for name, value in shown.items() if value is not None}
