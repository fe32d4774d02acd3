"""Seed data for the calendar: plain records, or an iCalendar file (`.ics`)."""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from sandlot.apps.calendar.calendars import add_calendar, share_calendar, write_event
from sandlot.apps.calendar.times import EventTime, is_event_time, read_event_time, zone_of
from sandlot.apps.live import LiveApp
from sandlot.core.errors import AuthorError
from sandlot.core.types import Json

_STAMP = re.compile(r"(\d{4})(\d\d)(\d\d)(?:T(\d\d)(\d\d)(\d\d)(Z?))?\Z")
_RESPONSES = {"ACCEPTED": "accepted", "DECLINED": "declined", "TENTATIVE": "tentative"}


class _Event(msgspec.Struct, frozen=True):
    calendar: str
    """The id of the calendar: for a main one, the address of its owner."""
    summary: str
    start: str
    end: str
    description: str | None = None
    location: str | None = None
    attendees: list[str | dict[str, Any]] = []
    recurrence: list[str] = []
    transparency: str | None = None
    visibility: str | None = None
    id: str | None = None


def load_calendar(
    app: LiveApp,
    *,
    owners: Mapping[str, str],
    events: Iterable[Mapping[str, Any]] = (),
    time_zone: str = "UTC",
    shared: bool = True,
) -> None:
    """Give each owner (address -> name) a main calendar, and add events.

    - `events`: `calendar` (the owner's address), `summary`, `start`, `end` (times, or days), and maybe `attendees` (addresses, or
      objects with `email` and `responseStatus`), `description`, `location`, `recurrence`, `transparency`, `visibility` and `id`.
    - `shared`: everyone may read all of these calendars.
    """
    if zone_of(time_zone) is None:
        raise AuthorError(f"`{time_zone}` is not a time zone; use an IANA name such as `Europe/Berlin`")
    for owner, name in owners.items():
        calendar = add_calendar(app, owner, name, time_zone=time_zone)
        if shared:
            share_calendar(app, calendar, "*")
    for number, record in enumerate(events):
        try:
            event = msgspec.convert({name: value for name, value in record.items() if value is not None}, _Event)
        except msgspec.ValidationError as error:
            raise AuthorError(f"event {number} of the calendar to load: {error}") from error
        _add(app, event, f"event {number} of the calendar to load")


def _add(app: LiveApp, event: _Event, where: str) -> None:
    calendar = app.one("SELECT * FROM calendar WHERE id = ?", event.calendar.lower())
    if calendar is None:
        raise AuthorError(f"{where}: there is no calendar `{event.calendar}`")
    for name, value in (("start", event.start), ("end", event.end)):
        if not is_event_time(value):
            raise AuthorError(f"{where}: {name} is {value!r}; write `2026-01-05T09:00:00` or `2026-01-05`")
    start, end = (read_event_time(each, calendar["time_zone"]) for each in (event.start, event.end))
    attendees: list[Json] = [{"email": each} if isinstance(each, str) else each for each in event.attendees]
    columns = {
        "id": event.id,
        "calendar": calendar["id"],
        "organizer": calendar["owner"],
        "summary": event.summary,
        "description": event.description,
        "location": event.location,
        "start": start.text,
        "end": end.text,
        "start_zone": start.zone,
        "end_zone": end.zone,
        "transparency": event.transparency,
        "visibility": event.visibility,
        "recurrence": json.dumps(event.recurrence) if event.recurrence else None,
        "details": json.dumps({"eventType": "default", "reminders": {"useDefault": True}}),
    }
    write_event(app, columns, attendees)


# -- iCalendar ---------------------------------------------------------------------------------------------------------


def load_ics(app: LiveApp, path: str | Path, calendar: str) -> int:
    """Add the events of an iCalendar file to a calendar; the number of events. Changed instances of a series are left out."""
    row = app.one("SELECT time_zone FROM calendar WHERE id = ?", calendar.lower())
    if row is None:
        raise AuthorError(f"there is no calendar `{calendar}` to load `{path}` into")
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise AuthorError(f"`{path}` cannot be read: {error}") from error
    count = 0
    for fields in _vevents(text):
        if "RECURRENCE-ID" in fields or fields.get("STATUS", [({}, "")])[0][1] == "CANCELLED":
            continue
        count += 1
        _add(app, _event_of(fields, calendar, row["time_zone"], f"event {count} of `{path}`"), f"event {count} of `{path}`")
    return count


_Fields = dict[str, list[tuple[dict[str, str], str]]]
"""The lines of an event by name, each with its parameters and its value."""


def _vevents(text: str) -> Iterator[_Fields]:
    unfolded = re.sub(r"\r?\n[ \t]", "", text)
    fields: _Fields | None = None
    inner = 0
    for line in unfolded.splitlines():
        name, _, value = line.partition(":")
        if line == "BEGIN:VEVENT":
            fields, inner = {}, 0
        elif line == "END:VEVENT" and fields is not None:
            yield fields
            fields = None
        elif fields is not None and name in {"BEGIN", "END"}:  # an alarm
            inner += 1 if name == "BEGIN" else -1
        elif fields is not None and inner == 0:
            first, *parameters = name.split(";")
            pairs = {key.upper(): each.strip('"') for key, _, each in (part.partition("=") for part in parameters)}
            fields.setdefault(first.upper(), []).append((pairs, value))


def _event_of(fields: _Fields, calendar: str, zone: str, where: str) -> _Event:
    def text(name: str) -> str | None:
        value = fields.get(name, [({}, "")])[0][1]
        return re.sub(r"\\([,;\\nN])", lambda match: "\n" if match[1] in "nN" else match[1], value) or None

    start = _ics_time(fields, "DTSTART", zone, where)
    end = _ics_time(fields, "DTEND", zone, where) if "DTEND" in fields else start
    attendees: list[str | dict[str, Any]] = [
        {
            "email": value.lower().removeprefix("mailto:"),
            "displayName": parameters.get("CN"),
            "responseStatus": _RESPONSES.get(parameters.get("PARTSTAT", ""), "needsAction"),
        }
        for parameters, value in fields.get("ATTENDEE", [])
    ]
    return _Event(
        calendar=calendar,
        summary=text("SUMMARY") or "",
        start=start,
        end=end,
        description=text("DESCRIPTION"),
        location=text("LOCATION"),
        attendees=attendees,
        recurrence=[f"RRULE:{value}" for _, value in fields.get("RRULE", [])],
        transparency="transparent" if text("TRANSP") == "TRANSPARENT" else None,
    )


def _ics_time(fields: _Fields, name: str, zone: str, where: str) -> str:
    parameters, value = fields.get(name, [({}, "")])[0]
    match = _STAMP.match(value)
    if match is None:
        raise AuthorError(f"{where}: `{name}` is {value!r}, not a time")
    day = f"{match[1]}-{match[2]}-{match[3]}"
    if match[4] is None:
        return EventTime(day, zone).text
    moment = f"{day}T{match[4]}:{match[5]}:{match[6]}"
    if match[7]:
        return f"{moment}Z"
    named = parameters.get("TZID", zone)
    return json.dumps({"dateTime": moment, "timeZone": named if zone_of(named) else zone})
