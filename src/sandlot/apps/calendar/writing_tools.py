"""The calendar's tools that create, change and delete events, and answer invitations."""

import json
from datetime import datetime, timedelta
from typing import Any

from sandlot.apps.calendar.calendars import (
    CALENDAR,
    NOT_FOUND,
    attendees_of,
    calendar_named,
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
from sandlot.apps.calendar.requests import bad_request, require_account, require_event_times, require_times
from sandlot.apps.calendar.similarity import overlap_text, similarity_of
from sandlot.apps.calendar.times import EventTime, read_event_time, read_moment, zone_of
from sandlot.apps.live import LiveApp
from sandlot.core.errors import ToolError
from sandlot.core.types import Json

_BLOCKING = 0.95
_THRESHOLD = 0.7
_MAX_EVENT_TEXT = 8192
_DETAILS = (
    "colorId", "reminders", "guestsCanInviteOthers", "guestsCanModify", "guestsCanSeeOtherGuests", "anyoneCanAddSelf",
    "conferenceData", "extendedProperties", "attachments", "source", "eventType", "focusTimeProperties", "outOfOfficeProperties",
    "workingLocationProperties",
)  # fmt: skip
"""Fields of an event that are stored and shown as given."""


@CALENDAR.tool(name="create-event", takes_s=60)
def _create_event(app: LiveApp, **given: Any) -> Json:
    require_account(given.get("account"))
    require_event_times("create-event", given)
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
        raise bad_request("Invalid time zone definition for start time.")
    start, end = (read_event_time(given[name], zone) for name in ("start", "end"))
    _require_order(start, end)
    for name in ("summary", "description", "location"):
        if len(given.get(name) or "") > _MAX_EVENT_TEXT:
            raise bad_request("The request is too large")
    name = given.get("event_id")
    if name and app.one("SELECT 1 FROM event WHERE id = ?", name):
        raise ToolError(f"Event ID '{name}' already exists. Please use a different ID.")
    if name and not (5 <= len(name) <= 1024 and set(name) <= set("abcdefghijklmnopqrstuv0123456789")):
        raise ToolError(
            "Invalid event ID: must be 5-1024 characters, base32hex encoding (lowercase letters a-v and digits 0-9 only)"
        )
    if not all(is_rule(line) for line in given.get("recurrence") or ()):
        raise bad_request("Invalid recurrence rule.")
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
        raise bad_request("Start and end times must either both be date or both be dateTime.")
    if end.moment < start.moment or (end.all_day and end.text == start.text):
        raise bad_request("The specified time range is empty.")


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
            require_event_times("create-events", given, f"events[{place}].")
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
    require_account(given.get("account"))
    require_event_times("update-event", given)
    require_times(
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
            raise bad_request("Invalid recurrence rule.")
        changed["recurrence"] = json.dumps(given["recurrence"]) if given["recurrence"] else None
    details = {each: given[_snake(each)] for each in _DETAILS if given.get(_snake(each)) is not None}
    if details:
        changed["details"] = json.dumps(json.loads(row["details"]) | details)
    return changed


@CALENDAR.tool(name="delete-event")
def _delete_event(app: LiveApp, calendar_id: str, event_id: str, send_updates: str = "all", account: str | None = None) -> Json:
    require_account(account)
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
    require_account(given.get("account"))
    require_times("respond-to-event", originalStartTime=given.get("original_start_time"))
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
