"""The tools of the calendar: names, arguments, results and errors of `@cocal/google-calendar-mcp`.

A call acts as the identity of the world, who is the one connected account. That server checks new events for duplicates and
conflicts, and so do these. Those that change nothing are here; `writing_tools` has the others.
"""

import json
from datetime import timedelta
from typing import Any

from sandlot.apps.calendar import pages, writing_tools
from sandlot.apps.calendar.calendars import (
    ACCOUNT,
    CALENDAR,
    busy_in,
    calendar_named,
    calendars_of,
    event_named,
    events_in,
    request_error,
    shown_event,
    start_of,
)
from sandlot.apps.calendar.requests import require_account, require_times
from sandlot.apps.calendar.times import read_moment, shown_moment, zone_of
from sandlot.apps.live import LiveApp
from sandlot.core.errors import ToolError
from sandlot.core.types import Json

__all__ = ["CALENDAR", "pages", "writing_tools"]

_QUARTER = timedelta(days=90)


@CALENDAR.tool(name="list-calendars")
def _list_calendars(app: LiveApp, account: str | list[str] | None = None) -> Json:
    require_account(account)
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
    require_account(given.get("account"))
    require_times(tool, timeMin=given.get("time_min"), timeMax=given.get("time_max"))
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
        except (ValueError, RecursionError):
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
    require_account(account)
    calendar = calendar_named(app, calendar_id)
    row = event_named(app, calendar, event_id)
    if row is None:
        raise ToolError(f"MCP error -32603: Internal error: Event with ID '{event_id}' not found in calendar '{calendar['id']}'.")
    return {"event": shown_event(app, row, calendar, fields)}


@CALENDAR.tool(name="get-freebusy")
def _get_freebusy(app: LiveApp, calendars: list[Json], time_min: str, time_max: str, **given: Any) -> Json:
    require_account(given.get("account"))
    require_times("get-freebusy", timeMin=time_min, timeMax=time_max)
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
    require_account(account)
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
    require_account(account)
    return {"event": _shown_colors(_EVENT_COLORS), "calendar": _shown_colors(_CALENDAR_COLORS)}


def _shown_colors(colors: list[str]) -> Json:
    return {str(number): {"background": f"#{color}", "foreground": "#1d1d1d"} for number, color in enumerate(colors, start=1)}


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
