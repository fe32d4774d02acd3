"""The tools of the calendar: names, arguments, results and errors of `@cocal/google-calendar-mcp`.

A call acts as the identity of the world, who is the one connected account. That server checks new events for duplicates and
conflicts, and so do these.
"""

import json
from datetime import datetime, timedelta
from typing import Any

from sandlot.apps.calendar import pages
from sandlot.apps.calendar.calendars import (
    ACCOUNT,
    CALENDAR,
    NOT_FOUND,
    attendees_of,
    busy_in,
    calendar_named,
    calendars_of,
    copy_instance,
    end_of,
    event_named,
    events_in,
    is_rule,
    request_error,
    set_attendees,
    shown_event,
    start_of,
    write_event,
)
from sandlot.apps.calendar.notices import notify
from sandlot.apps.calendar.similarity import overlap_text, similarity_of
from sandlot.apps.calendar.times import EventTime, is_event_time, is_time, read_event_time, read_moment, shown_moment, zone_of
from sandlot.apps.live import LiveApp
from sandlot.core.errors import ToolError
from sandlot.core.types import Json

__all__ = ["CALENDAR", "pages"]

_QUARTER = timedelta(days=90)
_BLOCKING = 0.95
_THRESHOLD = 0.7
_MAX_EVENT_TEXT = 8192
_DETAILS = (
    "colorId", "reminders", "guestsCanInviteOthers", "guestsCanModify", "guestsCanSeeOtherGuests", "anyoneCanAddSelf",
    "conferenceData", "extendedProperties", "attachments", "source", "eventType", "focusTimeProperties", "outOfOfficeProperties",
    "workingLocationProperties",
)  # fmt: skip
"""Fields of an event that are stored and shown as given."""


def _invalid(tool: str, message: str, at: str) -> ToolError:
    return ToolError(f"MCP error -32602: Input validation error: Invalid arguments for tool {tool}: {message} at {at}")


def _require_times(tool: str, **given: str | None) -> None:
    for name, value in given.items():
        if value is not None and not is_time(value):
            raise _invalid(tool, "Must be ISO 8601 format: '2026-01-01T00:00:00'", name)


def _require_event_times(tool: str, given: Json, where: str = "") -> None:
    for name in ("start", "end"):
        if given.get(name) is not None and not is_event_time(given[name]):
            words = "Must be ISO 8601 format: '2025-01-01T10:00:00' for timed events or '2025-01-01' for all-day events"
            raise _invalid(tool, words, f"{where}{name}")


def _require_account(account: str | list[str] | None) -> None:
    for name in [account] if isinstance(account, str) else account or []:
        if name.lower() != ACCOUNT:
            raise request_error(f'Account "{name.lower()}" not found. Available accounts: {ACCOUNT}')


def _bad_request(why: str) -> ToolError:
    return request_error(f"Bad Request: {why}. Details: {why}")


# -- reading -----------------------------------------------------------------------------------------------------------


@CALENDAR.tool(name="list-calendars")
def _list_calendars(app: LiveApp, account: str | list[str] | None = None) -> Json:
    _require_account(account)
    shown = [_shown_calendar(app, row) for row in calendars_of(app)]
    return {"calendars": shown, "totalCount": len(shown)}


def _shown_calendar(app: LiveApp, row: dict[str, Any]) -> Json:
    shown: Json = {
        "id": row["id"],
        "summary": row["summary"],
        "description": row["description"] or None,
        "timeZone": row["time_zone"],
        "colorId": "14",
        "backgroundColor": "#9fe1e7",
        "foregroundColor": "#000000",
        "selected": True,
        "accessRole": row["role"],
        "defaultReminders": [{"method": "popup", "minutes": 10}] if row["role"] == "owner" else [],
        "primary": True if row["is_main"] and row["owner"] == app.actor else None,
        "conferenceProperties": {"allowedConferenceSolutionTypes": ["hangoutsMeet"]},
    }
    return {name: value for name, value in shown.items() if value is not None}


def _found_events(
    app: LiveApp, tool: str, given: Json
) -> tuple[list[tuple[dict[str, Any], dict[str, Any]]], list[dict[str, Any]]]:
    """The events that a query finds, by start, each with its calendar; and the calendars."""
    _require_account(given.get("account"))
    _require_times(tool, timeMin=given.get("time_min"), timeMax=given.get("time_max"))
    names = _names(given["calendar_id"])
    calendars = [calendar_named(app, name) for name in names]
    found: list[tuple[dict[str, Any], dict[str, Any]]] = []
    for calendar in calendars:
        zone = given.get("time_zone") or calendar["time_zone"]
        begin, end = (read_moment(given[name], zone) if given.get(name) else None for name in ("time_min", "time_max"))
        found += [(row, calendar) for row in events_in(app, calendar, begin, end) if _has_properties(row, given)]
    return sorted(found, key=lambda each: start_of(each[0]).moment), calendars


def _names(given: str | list[str]) -> list[str]:
    """Calendar names: one, a list, or a list written as JSON."""
    if isinstance(given, str) and given.startswith("["):
        try:
            given = json.loads(given)
        except ValueError:
            given = [str(given)]
    names = [str(name) for name in ([given] if isinstance(given, str) else given) if str(name).strip()]
    if not names:
        raise request_error("At least one valid calendar identifier is required")
    return names


def _has_properties(row: dict[str, Any], given: Json) -> bool:
    kept = json.loads(row["details"]).get("extendedProperties", {})
    for kind in ("private", "shared"):
        for pair in given.get(f"{kind}_extended_property") or ():
            name, _, value = pair.partition("=")
            if kept.get(kind, {}).get(name) != value:
                return False
    return True


@CALENDAR.tool(name="list-events")
def _list_events(app: LiveApp, **given: Any) -> Json:
    found, calendars = _found_events(app, "list-events", given)
    shown: Json = {"events": [shown_event(app, row, calendar, given.get("fields")) for row, calendar in found]}
    shown["totalCount"] = len(found)
    return shown | ({"calendars": [row["id"] for row in calendars]} if len(calendars) > 1 else {})


@CALENDAR.tool(name="search-events")
def _search_events(app: LiveApp, **given: Any) -> Json:
    found, calendars = _found_events(app, "search-events", given)
    words = given["query"].lower().split()
    shown = [shown_event(app, row, calendar) for row, calendar in found]
    kept = [each for each in shown if all(word in _searched(each) for word in words)]
    fields = given.get("fields")
    if fields:
        wanted = {each["id"] for each in kept}
        kept = [shown_event(app, row, calendar, fields) for row, calendar in found if row["id"] in wanted]
    ids = [row["id"] for row in calendars]
    zone = given.get("time_zone") or calendars[0]["time_zone"]
    answer: Json = {"events": kept, "totalCount": len(kept), "query": given["query"]}
    answer |= {"calendarId": ids[0]} if len(ids) == 1 else {"calendars": ids}
    ends = [shown_moment(read_moment(given[name], zone), zone) for name in ("time_min", "time_max")]
    return answer | {"timeRange": {"start": ends[0], "end": ends[1]}}


def _searched(shown: Json) -> str:
    people = [f"{each['email']} {each.get('displayName', '')}" for each in shown.get("attendees", ())]
    texts = [shown.get(name, "") for name in ("summary", "description", "location")]
    return " ".join([*texts, shown["organizer"]["email"], *people]).lower()


@CALENDAR.tool(name="get-event")
def _get_event(
    app: LiveApp, calendar_id: str, event_id: str, fields: list[str] | None = None, account: str | None = None
) -> Json:
    _require_account(account)
    calendar = calendar_named(app, calendar_id)
    row = event_named(app, calendar, event_id)
    if row is None:
        raise ToolError(f"MCP error -32603: Internal error: Event with ID '{event_id}' not found in calendar '{calendar['id']}'.")
    return {"event": shown_event(app, row, calendar, fields)}


@CALENDAR.tool(name="get-freebusy")
def _get_freebusy(app: LiveApp, calendars: list[Json], time_min: str, time_max: str, **given: Any) -> Json:
    _require_account(given.get("account"))
    _require_times("get-freebusy", timeMin=time_min, timeMax=time_max)
    own = app.one("SELECT * FROM calendar WHERE owner = ? AND is_main", app.actor)
    zone = given.get("time_zone") or (own["time_zone"] if own else "UTC")
    begin, end = read_moment(time_min, zone), read_moment(time_max, zone)
    if end - begin > _QUARTER:
        raise request_error("The time gap between timeMin and timeMax must be less than 3 months")
    found: Json = {}
    for each in calendars:
        name = app.actor if each["id"] == "primary" else each["id"]
        row = app.one("SELECT * FROM calendar WHERE id = ?", name)
        if row is None:
            found[each["id"]] = {"busy": [], "errors": [{"domain": "global", "reason": "notFound"}]}
        else:
            spans = busy_in(app, row, begin, end)
            found[each["id"]] = {"busy": [{"start": shown_moment(a, zone), "end": shown_moment(b, zone)} for a, b in spans]}
    return {"timeMin": time_min, "timeMax": time_max, "calendars": found}


@CALENDAR.tool(name="get-current-time")
def _get_current_time(app: LiveApp, account: str | None = None, time_zone: str | None = None) -> Json:
    _require_account(account)
    own = app.one("SELECT time_zone FROM calendar WHERE owner = ? AND is_main", app.actor)
    name = time_zone or (own["time_zone"] if own else "UTC")
    zone = zone_of(name)
    if zone is None:
        raise request_error(f"Invalid timezone: {name}. Use IANA format (e.g. 'America/Los_Angeles').")
    local = app.now.astimezone(zone)
    text = local.isoformat(timespec="milliseconds").replace("+00:00", "Z")
    offset = "Z" if text.endswith("Z") else text[-6:]
    return {"currentTime": text, "timezone": name, "offset": offset, "isDST": bool(local.dst()), "dayOfWeek": f"{local:%A}"}


_EVENT_COLORS = ["a4bdfc", "7ae7bf", "dbadff", "ff887c", "fbd75b", "ffb878", "46d6db", "e1e1e1", "5484ed", "51b749", "dc2127"]
_CALENDAR_COLORS = [
    "ac725e",
    "d06b64",
    "f83a22",
    "fa573c",
    "ff7537",
    "ffad46",
    "42d692",
    "16a765",
    "7bd148",
    "b3dc6c",
    "fbe983",
    "fad165",
    "92e1c0",
    "9fe1e7",
    "9fc6e7",
    "4986e7",
    "9a9cff",
    "b99aff",
    "c2c2c2",
    "cabdbf",
    "cca6ac",
    "f691b2",
    "cd74e6",
    "a47ae2",
]


@CALENDAR.tool(name="list-colors")
def _list_colors(app: LiveApp, account: str | None = None) -> Json:  # noqa: ARG001 - the same in every world
    _require_account(account)
    return {"event": _shown_colors(_EVENT_COLORS), "calendar": _shown_colors(_CALENDAR_COLORS)}


def _shown_colors(colors: list[str]) -> Json:
    return {str(number): {"background": f"#{color}", "foreground": "#1d1d1d"} for number, color in enumerate(colors, start=1)}


# -- writing -----------------------------------------------------------------------------------------------------------


@CALENDAR.tool(name="create-event", takes_s=60)
def _create_event(app: LiveApp, **given: Any) -> Json:
    _require_account(given.get("account"))
    _require_event_times("create-event", given)
    calendar = calendar_named(app, given["calendar_id"], write=True)
    event = _new_event(app, calendar, given)
    duplicates, conflicts = _checked(app, calendar, event, given)
    exact = next((each for each in duplicates if each["event"]["similarity"] >= _BLOCKING), None)
    if exact and given.get("allow_duplicates") is not True:
        share = round(exact["event"]["similarity"] * 100)
        raise ToolError(
            f'Duplicate event detected ({share}% similar). Event "{exact["event"]["title"]}" already exists. '
            "To create anyway, set allowDuplicates to true."
        )
    row = _stored_event(app, event, given)
    notify(app, row, "Invitation", given.get("send_updates"))
    answer: Json = {"event": shown_event(app, row, calendar)}
    warnings = [f"Found {len(duplicates)} potential duplicate(s)"] if duplicates else []
    warnings += [f"Found {len(conflicts)} scheduling conflict(s)"] if conflicts else []
    for name, value in (("conflicts", conflicts), ("duplicates", duplicates), ("warnings", warnings)):
        answer |= {name: value} if value else {}
    return answer


def _new_event(app: LiveApp, calendar: dict[str, Any], given: Json) -> Json:
    """The columns of a new event; `ToolError` if Google would not take it."""
    zone = given.get("time_zone") or calendar["time_zone"]
    if zone_of(zone) is None:
        raise _bad_request("Invalid time zone definition for start time.")
    start, end = (read_event_time(given[name], zone) for name in ("start", "end"))
    _require_order(start, end)
    for name in ("summary", "description", "location"):
        if len(given.get(name) or "") > _MAX_EVENT_TEXT:
            raise _bad_request("The request is too large")
    name = given.get("event_id")
    if name and app.one("SELECT 1 FROM event WHERE id = ?", name):
        raise ToolError(f"Event ID '{name}' already exists. Please use a different ID.")
    if name and not (5 <= len(name) <= 1024 and set(name) <= set("abcdefghijklmnopqrstuv0123456789")):
        raise ToolError(
            "Invalid event ID: must be 5-1024 characters, base32hex encoding (lowercase letters a-v and digits 0-9 only)"
        )
    if not all(is_rule(line) for line in given.get("recurrence") or ()):
        raise _bad_request("Invalid recurrence rule.")
    details = {each: given[snake] for each in _DETAILS if given.get(snake := _snake(each)) is not None}
    return {
        "id": name,
        "calendar": calendar["id"],
        "organizer": calendar["owner"] if calendar["is_main"] else calendar["id"],
        "summary": given.get("summary") or "",
        "description": given.get("description"),
        "location": given.get("location"),
        "start": start.text,
        "end": end.text,
        "start_zone": start.zone,
        "end_zone": end.zone,
        "transparency": given.get("transparency"),
        "visibility": given.get("visibility"),
        "recurrence": json.dumps(given["recurrence"]) if given.get("recurrence") else None,
        "details": json.dumps({"eventType": "default", "reminders": {"useDefault": True}} | details),
    }


def _snake(name: str) -> str:
    return "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in name)


def _require_order(start: EventTime, end: EventTime) -> None:
    if start.all_day != end.all_day:
        raise _bad_request("Start and end times must either both be date or both be dateTime.")
    if end.moment < start.moment or (end.all_day and end.text == start.text):
        raise _bad_request("The specified time range is empty.")


def _stored_event(app: LiveApp, event: Json, given: Json) -> dict[str, Any]:
    name = write_event(app, event, given.get("attendees") or ())
    row = app.one("SELECT * FROM event WHERE id = ?", name)
    assert row is not None
    return row


def _checked(
    app: LiveApp, calendar: dict[str, Any], event: Json, given: Json, without: str = ""
) -> tuple[list[Json], list[Json]]:
    """The events that a new one may repeat, and those that it overlaps."""
    start, end = start_of(event).moment, end_of(event).moment
    names = given.get("calendars_to_check") or [calendar["id"]]
    duplicates: list[Json] = []
    conflicts: list[Json] = []
    for name in names:
        checked = calendar_named(app, name)
        for row in events_in(app, checked, start - timedelta(days=1), end + timedelta(days=1)):
            if without in {row["id"], row["series"]} and without:
                continue
            shown = shown_event(app, row, checked)
            likeness = similarity_of(event, row)
            about: Json = {
                "id": row["id"],
                "title": shown.get("summary", "(private)"),
                "start": shown["start"].get("dateTime") or shown["start"]["date"],
                "end": shown["end"].get("dateTime") or shown["end"]["date"],
                "url": shown["htmlLink"],
            }
            if likeness >= given.get("duplicate_similarity_threshold", _THRESHOLD) and checked["id"] == calendar["id"]:
                hint = "This appears to be a duplicate. Consider updating the existing event instead."
                duplicates.append({"event": about | {"similarity": likeness}, "calendarId": checked["id"], "suggestion": hint})
            elif start < end_of(row).moment and start_of(row).moment < end and row["transparency"] != "transparent":
                conflicts.append({"event": about, "calendar": checked["id"], "overlap": overlap_text(event, row)})
    return duplicates, conflicts


_MAX_SAME_FAILURES = 3


@CALENDAR.tool(name="create-events", takes_s=60)
def _create_events(app: LiveApp, events: list[Json], **defaults: Any) -> Json:
    created: list[Json] = []
    failed: list[Json] = []
    same = 0
    for place, each in enumerate(events):
        given = defaults | {_snake(name): value for name, value in each.items()}
        given.setdefault("calendar_id", "primary")
        if same >= _MAX_SAME_FAILURES:
            failed.append(
                {"index": place, "summary": each["summary"], "error": f"Skipped: {failed[place - 1 - len(created)]['error']}"}
            )
            continue
        try:
            _require_event_times("create-events", given, f"events[{place}].")
            calendar = calendar_named(app, given["calendar_id"], write=True)
            row = _stored_event(app, _new_event(app, calendar, given), given)
            notify(app, row, "Invitation", given.get("send_updates"))
            created.append(shown_event(app, row, calendar))
            same = 0
        except ToolError as error:
            same = same + 1 if failed and failed[-1]["error"] == str(error) else 1
            failed.append({"index": place, "summary": each["summary"], "error": str(error)})
    answer: Json = {"totalRequested": len(events), "totalCreated": len(created), "totalFailed": len(failed), "created": created}
    answer |= {"failed": failed} if failed else {}
    if not created:
        raise ToolError(json.dumps(answer, separators=(",", ":"), ensure_ascii=False))
    return answer


@CALENDAR.tool(name="update-event", takes_s=60)
def _update_event(app: LiveApp, **given: Any) -> Json:
    _require_account(given.get("account"))
    _require_event_times("update-event", given)
    _require_times(
        "update-event", originalStartTime=given.get("original_start_time"), futureStartDate=given.get("future_start_date")
    )
    calendar = calendar_named(app, given["calendar_id"], write=True)
    row = _changeable(app, calendar, given["event_id"])
    scope = given.get("modification_scope") or "all"
    if scope != "all" and not row["recurrence"]:
        raise ToolError('Scope other than "all" only applies to recurring events')
    row = _scoped(app, row, given, scope)
    changed = _changed_columns(row, calendar, given)
    conflicts: list[Json] = []
    if given.get("check_conflicts") is not False and ("start" in changed or "end" in changed):
        conflicts = _checked(app, calendar, row | changed, given, without=row["id"])[1]
    changed |= {"updated": app.at, "sequence": row["sequence"] + 1}
    sets = ", ".join(f"{column} = ?" for column in changed)
    app.run(f"UPDATE event SET {sets} WHERE id = ?", *changed.values(), row["id"])  # noqa: S608 - columns are constants
    if given.get("attendees") is not None:
        set_attendees(app, row["id"], row["organizer"], given["attendees"])
    final = app.one("SELECT * FROM event WHERE id = ?", row["id"])
    assert final is not None
    notify(app, final, "Updated invitation", given.get("send_updates", "all"))
    answer: Json = {"event": shown_event(app, final, calendar)}
    return answer | (
        {"conflicts": conflicts, "warnings": [f"Found {len(conflicts)} scheduling conflict(s)"]} if conflicts else {}
    )


def _changeable(app: LiveApp, calendar: dict[str, Any], event: str) -> dict[str, Any]:
    """An event that the actor may change; `ToolError` if there is none, or only its organizer may."""
    row = event_named(app, calendar, event)
    if row is None:
        raise request_error(NOT_FOUND)
    guests = json.loads(row["details"]).get("guestsCanModify")
    if row["calendar"] != calendar["id"] and not guests:
        raise request_error("Access denied: Shared properties can only be changed by the organizer of the event.")
    return copy_instance(app, row) if "stored" in row else row


def _scoped(app: LiveApp, row: dict[str, Any], given: Json, scope: str) -> dict[str, Any]:
    """The event to change: the whole series, one instance as an event of its own, or a new series from a date on."""
    if scope == "all":
        return row
    needed, what = ("original_start_time", "originalStartTime is required for single instance updates")
    if scope == "thisAndFollowing":
        needed, what = "future_start_date", "futureStartDate is required for future instance updates"
    if not given.get(needed):
        raise ToolError(what)
    moment = read_moment(given[needed], given.get("time_zone") or row["start_zone"])
    if scope == "thisEventOnly":
        stamp = start_of(row).text if start_of(row).all_day else EventTime(moment.strftime("%Y-%m-%dT%H:%M:%SZ"), "UTC").text
        calendar = app.one("SELECT * FROM calendar WHERE id = ?", row["calendar"])
        assert calendar is not None
        found = event_named(app, calendar, f"{row['id']}_{stamp.replace('-', '').replace(':', '')}")
        if found is None:
            raise request_error(NOT_FOUND)
        return copy_instance(app, found) if "stored" in found else found
    return _split_series(app, row, moment, given)


def _split_series(app: LiveApp, row: dict[str, Any], moment: datetime, given: Json) -> dict[str, Any]:
    """End a series before a moment, and begin a new one there."""
    until = (moment - timedelta(seconds=1)).strftime("%Y%m%dT%H%M%SZ")
    lines = json.loads(row["recurrence"])
    ended = [_ended(line, until) for line in lines]
    app.run("UPDATE event SET recurrence = ?, updated = ? WHERE id = ?", json.dumps(ended), app.at, row["id"])
    length = end_of(row).moment - start_of(row).moment
    start = read_event_time(given.get("start") or given["future_start_date"], row["start_zone"])
    end = read_event_time(given["end"], row["end_zone"]) if given.get("end") else start.moved(length)
    columns = {name: value for name, value in row.items() if name not in {"id", "created", "updated", "role"}}
    columns |= {"start": start.text, "end": end.text, "sequence": 0}
    name = write_event(app, columns, [{"email": each["email"], "displayName": each["name"]} for each in attendees_of(app, row)])
    made = app.one("SELECT * FROM event WHERE id = ?", name)
    assert made is not None
    return made


def _ended(line: str, until: str) -> str:
    if not line.upper().startswith("RRULE"):
        return line
    parts = [part for part in line.split(";") if not part.upper().removeprefix("RRULE:").startswith(("UNTIL=", "COUNT="))]
    return ";".join([*parts, f"UNTIL={until}"])


def _changed_columns(row: dict[str, Any], calendar: dict[str, Any], given: Json) -> Json:
    zone = given.get("time_zone") or calendar["time_zone"]
    changed: Json = {
        name: given[name]
        for name in ("summary", "description", "location", "transparency", "visibility")
        if given.get(name) is not None
    }
    for name in ("start", "end"):
        if given.get(name) is not None:
            time = read_event_time(given[name], zone)
            changed |= {name: time.text, f"{name}_zone": time.zone}
    merged = row | changed
    if "start" in changed or "end" in changed:
        _require_order(start_of(merged), end_of(merged))
    if given.get("recurrence") is not None:
        if not all(is_rule(line) for line in given["recurrence"]):
            raise _bad_request("Invalid recurrence rule.")
        changed["recurrence"] = json.dumps(given["recurrence"]) if given["recurrence"] else None
    details = {each: given[_snake(each)] for each in _DETAILS if given.get(_snake(each)) is not None}
    if details:
        changed["details"] = json.dumps(json.loads(row["details"]) | details)
    return changed


@CALENDAR.tool(name="delete-event")
def _delete_event(app: LiveApp, calendar_id: str, event_id: str, send_updates: str = "all", account: str | None = None) -> Json:
    _require_account(account)
    calendar = calendar_named(app, calendar_id, write=True)
    row = event_named(app, calendar, event_id)
    if row is None:
        raise request_error(NOT_FOUND)
    if row["calendar"] != calendar["id"]:  # an invitation: it leaves this calendar only
        stored = row.get("stored") or row["id"]
        app.run("UPDATE attendee SET hidden = 1, response = 'declined' WHERE event = ? AND email = ?", stored, calendar["owner"])
    elif "stored" in row or row["series"]:
        single = copy_instance(app, row) if "stored" in row else row
        app.run("UPDATE event SET status = 'cancelled', updated = ? WHERE id = ?", app.at, single["id"])
        notify(app, row, "Canceled event", send_updates)
    else:
        notify(app, row, "Canceled event", send_updates)
        for each in (row["id"], *(child["id"] for child in app.rows("SELECT id FROM event WHERE series = ?", row["id"]))):
            app.run("DELETE FROM attendee WHERE event = ?", each)
            app.run("DELETE FROM event WHERE id = ?", each)
    return {"success": True, "eventId": event_id, "calendarId": calendar["id"], "message": "Event deleted successfully"}


@CALENDAR.tool(name="respond-to-event")
def _respond_to_event(app: LiveApp, calendar_id: str, event_id: str, response: str, **given: Any) -> Json:
    _require_account(given.get("account"))
    _require_times("respond-to-event", originalStartTime=given.get("original_start_time"))
    calendar = calendar_named(app, calendar_id, write=True)
    scope = given.get("modification_scope")
    target = _response_target(app, calendar, event_id, scope, given.get("original_start_time"))
    attendee = next((each for each in attendees_of(app, target) if each["email"] == app.actor), None)
    internal = "MCP error -32603: Internal error: "
    if attendee is None:
        raise ToolError(f"{internal}You are not an attendee of this event. Only attendees can respond to event invitations.")
    if target["organizer"] == app.actor:
        raise ToolError(
            f"{internal}You are the organizer of this event. Organizers do not respond to their own event invitations."
        )
    row = copy_instance(app, target) if "stored" in target else target
    comment = given.get("comment")
    kept = attendee["comment"] if comment is None else comment
    app.run("UPDATE attendee SET response = ?, comment = ? WHERE event = ? AND email = ?", response, kept, row["id"], app.actor)
    message = f'Your response has been set to "{response}"'
    message += {"thisEventOnly": " for this instance only", "all": " for all instances"}.get(scope or "", "")
    message += f' with note: "{comment}"' if comment else ""
    updates = given.get("send_updates") or "none"
    return {"event": shown_event(app, row, calendar), "responseStatus": response, "sendUpdates": updates, "message": message}


def _response_target(
    app: LiveApp, calendar: dict[str, Any], event: str, scope: str | None, original: str | None
) -> dict[str, Any]:
    name = event.split("_", maxsplit=1)[0] if scope == "all" else event
    if scope == "thisEventOnly":
        if not original:
            raise ToolError('originalStartTime is required when modificationScope is "thisEventOnly"')
        series = event_named(app, calendar, event)
        if series is None or not series["recurrence"]:
            raise ToolError('modificationScope "thisEventOnly" can only be used with recurring events')
        name = f"{event}_{read_moment(original, series['start_zone']).strftime('%Y%m%dT%H%M%SZ')}"
    found = event_named(app, calendar, name)
    if found is None:
        raise request_error(NOT_FOUND)
    return found


@CALENDAR.tool(name="manage-accounts")
def _manage_accounts(app: LiveApp, action: str, account_id: str | None = None) -> str:
    if action == "list":
        if account_id and account_id.lower() != ACCOUNT:
            raise request_error(f'Account "{account_id.lower()}" not found. Available accounts: {ACCOUNT}')
        answer = _account_list(app, f'Found account "{ACCOUNT}"' if account_id else "Found 1 authenticated account(s)")
        return json.dumps(answer, indent=2, ensure_ascii=False)
    if not account_id:
        hint = " Provide a nickname like 'work' or 'personal' to identify this account." if action == "add" else ""
        raise request_error(f"account_id is required for '{action}' action.{hint}")
    raise request_error("Access denied: the accounts of this server are managed by its administrator.")


def _account_list(app: LiveApp, message: str) -> Json:
    calendars = calendars_of(app)
    main = next((row for row in calendars if row["is_main"] and row["owner"] == app.actor), None)
    account: Json = {"account_id": ACCOUNT, "status": "active", "email": app.actor, "calendar_count": len(calendars)}
    if main:
        account["primary_calendar"] = {"id": main["id"], "name": main["summary"], "timezone": main["time_zone"]}
    return {"accounts": [account], "total_accounts": 1, "message": message}
