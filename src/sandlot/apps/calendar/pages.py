"""The pages of the calendar, for agents that use a browser: the same functions as the tools, in forms that need no JavaScript."""

import re
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import quote

from sandlot.apps.calendar.calendars import CALENDAR, calendar_named, calendars_of, event_named, events_in, shown_event
from sandlot.apps.calendar.times import zone_of
from sandlot.apps.live import LiveApp
from sandlot.apps.pages import PageRequest, PageResponse, render
from sandlot.core.errors import ToolError
from sandlot.core.types import Json

_HERE = Path(__file__).parent / "templates"
_WEEK = timedelta(days=7)
_MINUTES = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d\Z")
_PREFIX = re.compile(r"\AMCP error -\d+: (?:Input validation error: Invalid arguments for tool [\w-]+: )?")


def _do(app: LiveApp, tool: str, **given: Any) -> Json:
    """What a tool does; errors without the words of the MCP server."""
    act: Callable[..., Json] = CALENDAR.parts.tools[tool].function
    try:
        return act(app, **given)
    except ToolError as error:
        raise ToolError(_PREFIX.sub("", str(error))) from error


@CALENDAR.page("GET", "/")
def _agenda(app: LiveApp, request: PageRequest) -> PageResponse:
    calendar = calendar_named(app, request.query.get("calendar") or "primary")
    zone = zone_of(calendar["time_zone"]) or UTC
    try:
        day = date.fromisoformat(request.query.get("day", ""))
        first = day - timedelta(days=day.weekday())
        begin = datetime.combine(first, datetime.min.time(), zone)
        end, last, previous = begin + _WEEK, first + timedelta(days=6), first - _WEEK
    except (ValueError, OverflowError):
        today = app.now.astimezone(zone).date()
        first = today - timedelta(days=today.weekday())
        begin = datetime.combine(first, datetime.min.time(), zone)
        end, last, previous = begin + _WEEK, first + timedelta(days=6), first - _WEEK
    events = [_line(shown_event(app, row, calendar)) for row in events_in(app, calendar, begin, end)]
    return render(
        _HERE,
        "agenda.html",
        actor=app.actor,
        shown=calendar["summary"],
        chosen=calendar["id"],
        calendars=calendars_of(app),
        first=first,
        last=last,
        previous=previous,
        next=last + timedelta(days=1),
        events=events,
    )


def _line(shown: Json) -> Json:
    return {
        "id": shown["id"],
        "when": _when(shown),
        "summary": shown.get("summary", "Busy"),
        "location": shown.get("location", ""),
    }


def _when(shown: Json) -> str:
    start, end = (shown[name].get("dateTime", shown[name].get("date"))[:16].replace("T", " ") for name in ("start", "end"))
    return f"{shown['startDayOfWeek']}, {start} to {end[11:] if start[:10] == end[:10] else end}"


def _shown(app: LiveApp, calendar: str, event: str) -> Json:
    place = calendar_named(app, calendar)
    row = event_named(app, place, event)
    if row is None:
        raise ToolError("There is no such event.")
    return shown_event(app, row, place)


@CALENDAR.page("GET", "/event/{calendar}/{event}")
def _event(app: LiveApp, _request: PageRequest, calendar: str, event: str) -> PageResponse:
    shown: Json = {"summary": "Busy", "description": "", "location": "", "attendees": [], "recurrence": []}
    shown |= _shown(app, calendar, event)
    own = shown["organizer"]["email"] == app.actor
    invited = not own and any(each["email"] == app.actor for each in shown["attendees"])
    people: list[Json] = [{"displayName": "", "comment": ""} | each for each in shown["attendees"]]
    path = _path(calendar, event)
    values: Json = {"event": shown | {"attendees": people}, "when": _when(shown), "own": own, "invited": invited, "path": path}
    return render(_HERE, "event.html", actor=app.actor, **values)


def _path(calendar: str, event: str) -> str:
    return f"/event/{quote(calendar, safe='')}/{quote(event, safe='')}"


_EMPTY = {"summary": "", "start": "", "end": "", "location": "", "guests": "", "description": ""}


@CALENDAR.page("GET", "/new")
def _new(app: LiveApp, _request: PageRequest) -> PageResponse:
    return render(_HERE, "edit.html", actor=app.actor, editing=False, action="/new", **_EMPTY)


@CALENDAR.page("POST", "/new")
def _create(app: LiveApp, request: PageRequest) -> PageResponse:
    made = _do(app, "create-event", calendar_id="primary", allow_duplicates=True, send_updates="all", **_fields(request))
    return PageResponse.redirect(_path(app.actor, made["event"]["id"]))


@CALENDAR.page("GET", "/event/{calendar}/{event}/edit")
def _edit(app: LiveApp, _request: PageRequest, calendar: str, event: str) -> PageResponse:
    shown = _shown(app, calendar, event)
    times = {name: shown[name].get("date") or shown[name]["dateTime"][:16] for name in ("start", "end")}
    guests = ", ".join(each["email"] for each in shown.get("attendees", ()) if not each.get("organizer"))
    kept = {name: shown.get(name, "") for name in ("summary", "location", "description")}
    action = f"{_path(calendar, event)}/edit"
    return render(_HERE, "edit.html", actor=app.actor, editing=True, action=action, guests=guests, **times, **kept)


@CALENDAR.page("POST", "/event/{calendar}/{event}/edit")
def _change(app: LiveApp, request: PageRequest, calendar: str, event: str) -> PageResponse:
    made = _do(app, "update-event", calendar_id=calendar, event_id=event, **_fields(request))
    return PageResponse.redirect(_path(calendar, made["event"]["id"]))


def _fields(request: PageRequest) -> Json:
    """The fields of the form as a tool takes them; `ToolError` for a guest that is no address."""
    form = request.form
    times = {
        name: f"{text}:00" if _MINUTES.match(text) else text for name in ("start", "end") if (text := form.get(name, "").strip())
    }
    if len(times) != 2:
        raise ToolError("Give the start and the end of the event.")
    guests = [part.strip().lower() for part in form.get("guests", "").replace(";", ",").split(",") if part.strip()]
    for guest in guests:
        if guest.count("@") != 1 or any(letter.isspace() for letter in guest):
            raise ToolError(f"`{guest[:100]}` is not an address.")
    kept = {name: form.get(name, "").replace("\r\n", "\n") for name in ("summary", "location", "description")}
    return {**times, **kept, "attendees": [{"email": guest} for guest in guests]}


@CALENDAR.page("POST", "/event/{calendar}/{event}/delete")
def _delete(app: LiveApp, _request: PageRequest, calendar: str, event: str) -> PageResponse:
    _do(app, "delete-event", calendar_id=calendar, event_id=event)
    return PageResponse.redirect("/")


@CALENDAR.page("POST", "/event/{calendar}/{event}/answer")
def _answer(app: LiveApp, request: PageRequest, calendar: str, event: str) -> PageResponse:
    response = request.form.get("response", "")
    if response not in {"accepted", "tentative", "declined"}:
        raise ToolError("Answer with Yes, Maybe or No.")
    made = _do(
        app,
        "respond-to-event",
        calendar_id=calendar,
        event_id=event,
        response=response,
        comment=request.form.get("comment") or None,
    )
    return PageResponse.redirect(_path(calendar, made["event"]["id"]))
