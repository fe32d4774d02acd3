"""Objects of the CRM: creating and changing them, who may, what a value must be, and how they are associated."""

import json
import re
from datetime import UTC, datetime
from typing import Any

from sandlot.apps.app import App
from sandlot.apps.crm.tables import PROPERTIES, SHOWN, WHOLE_SCHEMA
from sandlot.apps.live import LiveApp
from sandlot.apps.recorded import RecordedServer
from sandlot.core.errors import ToolError
from sandlot.core.types import Json

CRM = App("crm", schema=WHOLE_SCHEMA, server=RecordedServer.read("hubspot"))
"""Customers, as in HubSpot."""
_FIRST_ID = 30_001
_MAX_VALUE = 65_536
_IDS = {"0-1": "contacts", "0-2": "companies", "0-3": "deals", "0-5": "tickets", "0-7": "products", "0-8": "line_items"}
_IDS_OF_ACTIVITIES = {"0-46": "notes", "0-27": "tasks", "0-47": "meetings", "0-48": "calls", "0-49": "emails"}
_ALIASES = {kind.rstrip("s"): kind for kind in PROPERTIES} | {"company": "companies"} | _IDS | _IDS_OF_ACTIVITIES
_WORDS = {400: "Bad Request", 403: "Forbidden", 404: "Not Found", 409: "Conflict"}


def api_error(status: int, message: str, category: str) -> ToolError:
    """An error as HubSpot's interface answers it."""
    body = json.dumps({"status": "error", "message": message, "category": category}, separators=(",", ":"), ensure_ascii=False)
    return ToolError(f"HubSpot API Error: {status} {_WORDS[status]} - {body}")


def kind_of(object_type: str) -> str:
    """The type of object that a name or a number means; `ToolError` if there is none."""
    kind = _ALIASES.get(object_type.lower(), object_type.lower())
    if kind not in PROPERTIES:
        raise api_error(400, f"Unable to infer object type from: {object_type[:60]}", "VALIDATION_ERROR")
    return kind


def owner_of(app: LiveApp) -> Json | None:
    """The owner record of the one who acts."""
    return app.one("SELECT * FROM owner WHERE email = ? COLLATE NOCASE", app.actor)


def require_edit(app: LiveApp, number: int | None = None) -> None:
    """`ToolError` if the actor may not change an object, or create one."""
    rows = {row["email"].lower(): row["edit"] for row in app.rows("SELECT * FROM permission")}
    if not rows or not app.actor:
        return
    level = rows.get(app.actor.lower(), "none")
    mine = owner_of(app)
    own = number is None or (mine is not None and value_of(app, number, "hubspot_owner_id") == str(mine["id"]))
    if level == "none" or (level == "own" and not own):
        raise api_error(403, "You do not have permissions to edit this object.", "MISSING_SCOPES")


def value_of(app: LiveApp, number: int, name: str) -> str | None:
    """One property of an object."""
    found = app.value("SELECT value FROM property_value WHERE object = ? AND name = ?", number, name)
    return None if found is None else str(found)


def find_object(app: LiveApp, kind: str, number: str) -> Json:
    """An object by its id; `ToolError` if there is none of that type."""
    row = app.one("SELECT * FROM object WHERE type = ? AND CAST(id AS TEXT) = ?", kind, str(number))
    if row is None or row["archived"]:
        raise api_error(404, f"Object not found. objectId are usually numeric: {str(number)[:40]}", "OBJECT_NOT_FOUND")
    return row


# -- values -------------------------------------------------------------------------------------------------------------


def checked_value(app: LiveApp, kind: str, name: str, value: Any) -> str:
    """A value of a property as it is stored; `ToolError` if the property does not exist or the value does not fit."""
    row = app.one("SELECT * FROM property WHERE type = ? AND name = ?", kind, name)
    if row is None:
        raise _invalid(name, f'Property "{name[:60]}" does not exist', "PROPERTY_DOESNT_EXIST")
    if row["read_only"]:
        raise _invalid(name, f'"{name}" is a read only property; its value cannot be set.', "READ_ONLY_VALUE")
    text = str(value)
    if len(text) > _MAX_VALUE:
        raise _invalid(name, f"Property value exceeded max length of {_MAX_VALUE}", "VALUE_TOO_LONG")
    if not text:
        return ""
    return _fitted(app, row, name, text)


def _fitted(app: LiveApp, row: Json, name: str, text: str) -> str:
    options = [each["value"] for each in json.loads(row["options"])]
    if name == "hubspot_owner_id" and app.one("SELECT 1 FROM owner WHERE CAST(id AS TEXT) = ?", text) is None:
        raise _invalid(name, f"Owner {text[:40]} does not exist", "INVALID_OWNER_ID")
    if options and text not in options:
        raise _invalid(name, f"{text[:60]} was not one of the allowed options: {', '.join(options)}", "INVALID_OPTION")
    match row["kind"]:
        case "number":
            if not re.fullmatch(r"-?\d{1,18}(\.\d{1,6})?", text):
                raise _invalid(name, f"{text[:60]} was not a valid number.", "INVALID_NUMBER")
        case "datetime" | "date":
            return parse_moment(name, text)
        case "bool":
            if text not in {"true", "false"}:
                raise _invalid(name, f"{text[:60]} was not one of: true, false", "INVALID_OPTION")
        case _:
            if name == "email" and not re.fullmatch(r"[^@\s]+@[^@\s]+\.[^@\s]+", text):
                raise _invalid(name, f"Email address {text[:80]} is invalid", "INVALID_EMAIL")
    return text


def parse_moment(name: str, text: str) -> str:
    """A date or time as stored, from ISO 8601 or milliseconds since 1970; `ToolError` if it is neither."""
    try:
        if re.fullmatch(r"-?\d{9,15}", text):
            moment = datetime.fromtimestamp(int(text) / 1000, tz=UTC)
        else:
            moment = datetime.fromisoformat(text)
            moment = moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    except (ValueError, OverflowError, OSError) as error:
        raise _invalid(name, f"{text[:60]} was not a valid date or time; use ISO 8601 or milliseconds", "INVALID_DATE") from error
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


def _invalid(name: str, message: str, error: str) -> ToolError:
    problem = [{"isValid": False, "message": message, "error": error, "name": name[:60]}]
    return api_error(400, f"Property values were not valid: {json.dumps(problem, ensure_ascii=False)}", "VALIDATION_ERROR")


# -- changes ------------------------------------------------------------------------------------------------------------


def create_object(app: LiveApp, kind: str, properties: Json) -> int:
    """Create an object and return its id; `ToolError` for a wrong value, or a contact or company that exists already."""
    require_edit(app)
    for name, table in (("email", "contacts"), ("domain", "companies")):
        if kind == table and properties.get(name):
            same = app.value(
                "SELECT o.id FROM object o JOIN property_value v ON v.object = o.id WHERE o.type = ? AND NOT o.archived"
                " AND v.name = ? AND v.value = ? COLLATE NOCASE",
                kind,
                name,
                properties[name],
            )
            if same is not None and kind == "contacts":
                raise api_error(409, f"Contact already exists. Existing ID: {same}", "CONFLICT")
    number = max(_FIRST_ID, (app.value("SELECT max(id) FROM object") or 0) + 1)
    app.insert("object", id=number, type=kind, created=app.at, updated=app.at)
    set_properties(app, kind, number, properties)
    return number


def set_properties(app: LiveApp, kind: str, number: int, properties: Json) -> None:
    """Set properties of an object; an empty text clears one."""
    given = {name: checked_value(app, kind, name, value) for name, value in properties.items()}
    if kind == "deals" and given.get("dealstage"):
        closed, won = given["dealstage"].startswith("closed"), given["dealstage"] == "closedwon"
        before = value_of(app, number, "dealstage") or ""
        if closed and not before.startswith("closed") and "closedate" not in given:
            given["closedate"] = app.at
        given |= {"hs_is_closed": str(closed).lower(), "hs_is_closed_won": str(won).lower()}
    for name, value in given.items():
        write_value(app, number, name, value)
    app.run("UPDATE object SET updated = ? WHERE id = ?", app.at, number)


def write_value(app: LiveApp, number: int, name: str, value: str) -> None:
    """Store a value and its history, without checks."""
    if (value_of(app, number, name) or "") == value:
        return
    app.run("DELETE FROM property_value WHERE object = ? AND name = ?", number, name)
    if value:
        app.insert("property_value", object=number, name=name, value=value)
    app.insert("property_change", object=number, name=name, value=value, at=app.at, by=app.actor)


def associate(app: LiveApp, kinds: tuple[str, str], ends: tuple[int, int], type_id: int | None = None) -> None:
    """Associate two objects, in both directions; `ToolError` if there is no such type of association."""
    row = app.one(
        "SELECT * FROM association_type WHERE from_type = ?1 AND to_type = ?2 AND (?3 IS NULL OR type_id = ?3)"
        " ORDER BY label IS NOT NULL LIMIT 1",
        *kinds,
        type_id,
    )
    if row is None:
        raise api_error(400, f"Invalid association type {type_id} from {kinds[0]} to {kinds[1]}", "VALIDATION_ERROR")
    for start, end, number, kind in (
        (ends[0], ends[1], row["type_id"], kinds[1]),
        (ends[1], ends[0], row["reverse_id"], kinds[0]),
    ):
        if app.one("SELECT 1 FROM association WHERE from_id = ? AND to_id = ? AND type_id = ?", start, end, number) is None:
            app.insert("association", from_id=start, to_id=end, type_id=number, to_type=kind)


# -- shapes -------------------------------------------------------------------------------------------------------------


def object_shape(app: LiveApp, row: Json, properties: list[str] | None = None) -> Json:
    """An object as HubSpot returns it: the usual properties, and those that were asked for."""
    number, kind = row["id"], row["type"]
    stored = {each["name"]: each["value"] for each in app.rows("SELECT name, value FROM property_value WHERE object = ?", number)}
    changed = "lastmodifieddate" if kind == "contacts" else "hs_lastmodifieddate"
    fixed = {"createdate": row["created"], changed: row["updated"], "hs_object_id": str(number)}
    names = sorted({*(properties or SHOWN.get(kind, tuple(PROPERTIES[kind]))), *fixed})
    shown = {name: fixed.get(name, stored.get(name)) for name in names}
    return {
        "id": str(number),
        "properties": shown,
        "createdAt": row["created"],
        "updatedAt": row["updated"],
        "archived": bool(row["archived"]),
    }
