"""The tools of the CRM: names, arguments, results and errors of `@hubspot/mcp-server`."""

import functools
import json
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, cast

from sandlot.apps.crm.objects import (
    CRM,
    api_error,
    associate,
    create_object,
    find_object,
    kind_of,
    object_shape,
    owner_of,
    parse_moment,
    require_edit,
    set_properties,
    value_of,
)
from sandlot.apps.crm.search import find_objects
from sandlot.apps.live import LiveApp
from sandlot.core.errors import ToolError
from sandlot.core.types import Json

_PAGE = 100
_Function = Callable[..., Any]
_ENGAGED = {"contactIds": "contacts", "companyIds": "companies", "dealIds": "deals", "ticketIds": "tickets"}


def _hubspot(name: str, error: str) -> Callable[[_Function], _Function]:
    """Register a tool: its result as indented JSON, its errors after the server's own words."""

    def mark(function: _Function) -> _Function:
        @functools.wraps(function)
        def called(*arguments: Any, **keywords: Any) -> str:
            try:
                found = function(*arguments, **keywords)
            except ToolError as failed:
                raise ToolError(f"{error.format(**keywords)}{failed}") from failed
            return found if isinstance(found, str) else json.dumps(found, indent=2, ensure_ascii=False)

        CRM.tool(name=f"hubspot-{name}")(called)
        return function

    return mark


def _paged(found: list[Any], after: str | None, limit: int) -> tuple[list[Any], Json]:
    if after and (not after.isdecimal() or len(after) > 9):
        raise api_error(400, f"Invalid paging token: {after[:40]}", "VALIDATION_ERROR")
    start = int(after or 0)
    rest = {"paging": {"next": {"after": str(start + limit)}}} if start + limit < len(found) else {}
    return found[start : start + limit], rest


# -- reading ------------------------------------------------------------------------------------------------------------


@_hubspot("get-user-details", "Error retrieving token, owner, and account information. ")
def _get_user_details(app: LiveApp) -> str:
    portal = app.one("SELECT * FROM portal") or {}
    owner = owner_of(app)
    scopes = ["crm.objects.contacts.read", "crm.objects.companies.read", "crm.objects.deals.read", "crm.objects.owners.read"]
    token = {"userId": owner["user_id"] if owner else None, "hubId": portal["id"], "appId": 1, "scopes": scopes}
    person = None
    if owner is not None:
        person = {
            "id": str(owner["id"]),
            "email": owner["email"],
            "firstName": owner["first_name"],
            "lastName": owner["last_name"],
        }
        person |= {"userId": owner["user_id"], "archived": False}
    account = {
        "portalId": portal["id"],
        "uiDomain": portal["ui_domain"],
        "companyCurrency": portal["currency"],
        "timeZone": portal["time_zone"],
    }
    parts = {"Token Info": token, "OwnerInfo": person, "AccountInfo": account}
    return "\n".join(f"- {name}: {json.dumps(part, indent=2, ensure_ascii=False)}" for name, part in parts.items())


@_hubspot("list-objects", "Error listing HubSpot {object_type}: ")
def _list_objects(
    app: LiveApp,
    *,
    object_type: str,
    limit: int = 100,
    after: str | None = None,
    properties: list[str] | None = None,
    associations: list[str] | None = None,
    archived: bool = False,
) -> Json:
    kind = kind_of(object_type)
    rows = app.rows("SELECT * FROM object WHERE type = ? AND archived = ? ORDER BY id", kind, int(archived))
    page, paging = _paged(rows, after, limit)
    results: list[Json] = []
    for row in page:
        shown = object_shape(app, row, properties)
        for other in associations or ():
            ends = app.rows(
                "SELECT DISTINCT to_id FROM association WHERE from_id = ? AND to_type = ? ORDER BY to_id",
                row["id"],
                kind_of(other),
            )
            if ends:
                listed = [
                    {"id": str(end["to_id"]), "type": f"{kind.rstrip('s')}_to_{kind_of(other).rstrip('s')}"} for end in ends
                ]
                shown.setdefault("associations", {})[kind_of(other)] = {"results": listed}
        results.append(shown)
    return {"results": results, **paging}


@_hubspot("search-objects", "Error searching HubSpot {object_type}: ")
def _search_objects(
    app: LiveApp,
    *,
    object_type: str,
    query: str | None = None,
    limit: int = 10,
    after: str | None = None,
    properties: list[str] | None = None,
    sorts: list[Json] | None = None,
    filter_groups: list[Json] | None = None,
) -> Json:
    rows = find_objects(app, kind_of(object_type), query, filter_groups or [], sorts or [])
    page, paging = _paged(rows, after, limit)
    return {"results": [object_shape(app, row, properties) for row in page], **paging}


@_hubspot("batch-read-objects", "Error batch reading HubSpot objects: ")
def _batch_read_objects(
    app: LiveApp,
    *,
    object_type: str,
    inputs: list[Json],
    properties: list[str] | None = None,
    properties_with_history: list[str] | None = None,
) -> Json:
    kind = kind_of(object_type)
    results: list[Json] = []
    for given in inputs:
        row = app.one("SELECT * FROM object WHERE type = ? AND CAST(id AS TEXT) = ? AND NOT archived", kind, given["id"])
        if row is None:
            continue  # HubSpot leaves out what it does not find
        shown = object_shape(app, row, [*(properties or ()), *(properties_with_history or ())] or None)
        if properties_with_history:
            shown["propertiesWithHistory"] = {name: _history(app, row["id"], name) for name in properties_with_history}
        results.append(shown)
    return _batch(app, results)


def _history(app: LiveApp, number: int, name: str) -> list[Json]:
    rows = app.rows("SELECT * FROM property_change WHERE object = ? AND name = ? ORDER BY rowid DESC", number, name)
    return [{"value": row["value"], "timestamp": row["at"], "sourceType": "CRM_UI", "sourceId": row["by"]} for row in rows]


def _batch(app: LiveApp, results: list[Json]) -> Json:
    return {"status": "COMPLETE", "results": results, "requestedAt": app.at, "startedAt": app.at, "completedAt": app.at}


@_hubspot("get-schemas", "Error retrieving HubSpot schemas: ")
def _get_schemas(app: LiveApp) -> Json:
    _ = app
    return {"results": []}


# -- writing ------------------------------------------------------------------------------------------------------------


@_hubspot("batch-create-objects", "Error batch creating HubSpot objects. : ")
def _batch_create_objects(app: LiveApp, *, object_type: str, inputs: list[Json]) -> Json:
    kind = kind_of(object_type)
    results: list[Json] = []
    for given in inputs:
        number = create_object(app, kind, given["properties"])
        for link in given.get("associations") or ():
            _associate_any(app, kind, number, link["to"]["id"], link["types"])
        results.append(object_shape(app, find_object(app, kind, str(number)), list(given["properties"])))
    return _batch(app, results)


def _associate_any(app: LiveApp, kind: str, number: int, other: str, types: list[Json]) -> None:
    row = app.one("SELECT * FROM object WHERE CAST(id AS TEXT) = ? AND NOT archived", other)
    if row is None:
        raise api_error(404, f"Object not found. objectId are usually numeric: {other[:40]}", "OBJECT_NOT_FOUND")
    for each in types:
        associate(app, (kind, row["type"]), (number, row["id"]), each["associationTypeId"])


@_hubspot("batch-update-objects", "Error batch updating HubSpot objects: ")
def _batch_update_objects(app: LiveApp, *, object_type: str, inputs: list[Json]) -> Json:
    kind = kind_of(object_type)
    results: list[Json] = []
    for given in inputs:
        number = given["id"]
        if given.get("idProperty"):
            number = str(
                app.value(
                    "SELECT o.id FROM object o JOIN property_value v ON v.object = o.id"
                    " WHERE o.type = ? AND v.name = ? AND v.value = ?",
                    kind,
                    given["idProperty"],
                    number,
                )
            )
        row = find_object(app, kind, number)
        require_edit(app, row["id"])
        set_properties(app, kind, row["id"], given["properties"])
        results.append(object_shape(app, find_object(app, kind, str(row["id"])), list(given["properties"])))
    return _batch(app, results)


# -- associations -------------------------------------------------------------------------------------------------------


@_hubspot("get-association-definitions", "Error retrieving HubSpot association schema definitions: ")
def _get_association_definitions(app: LiveApp, *, from_object_type: str, to_object_type: str) -> Json:
    rows = app.rows(
        "SELECT * FROM association_type WHERE from_type = ? AND to_type = ? ORDER BY type_id",
        kind_of(from_object_type),
        kind_of(to_object_type),
    )
    return {"results": [{"category": "HUBSPOT_DEFINED", "typeId": row["type_id"], "label": row["label"]} for row in rows]}


@_hubspot("list-associations", "Error retrieving HubSpot associations: ")
def _list_associations(app: LiveApp, *, object_type: str, object_id: str, to_object_type: str, after: str | None = None) -> Json:
    row = find_object(app, kind_of(object_type), object_id)
    links = app.rows(
        "SELECT a.to_id, a.type_id, t.label FROM association a JOIN association_type t ON t.type_id = a.type_id"
        " AND t.to_type = a.to_type AND t.from_type = ? WHERE a.from_id = ? AND a.to_type = ? ORDER BY a.to_id, a.type_id",
        row["type"],
        row["id"],
        kind_of(to_object_type),
    )
    ends: dict[int, list[Json]] = {}
    for link in links:
        ends.setdefault(link["to_id"], []).append(
            {"category": "HUBSPOT_DEFINED", "typeId": link["type_id"], "label": link["label"]}
        )
    page, paging = _paged([{"toObjectId": end, "associationTypes": types} for end, types in ends.items()], after, 5 * _PAGE)
    return {"results": page, **paging}


@_hubspot("batch-create-associations", "Error creating HubSpot associations: ")
def _batch_create_associations(
    app: LiveApp, *, from_object_type: str, to_object_type: str, types: list[Json], inputs: list[Json]
) -> Json:
    kinds = (kind_of(from_object_type), kind_of(to_object_type))
    results: list[Json] = []
    for given in inputs[: 2 * _PAGE]:
        start, end = find_object(app, kinds[0], given["from"]["id"]), find_object(app, kinds[1], given["to"]["id"])
        require_edit(app, start["id"])
        for each in types:
            associate(app, kinds, (start["id"], end["id"]), each["associationTypeId"])
        results.append(
            {
                "fromObjectTypeId": kinds[0],
                "fromObjectId": start["id"],
                "toObjectTypeId": kinds[1],
                "toObjectId": end["id"],
                "labels": [],
            }
        )
    return {"status": "COMPLETE", "results": results, "startedAt": app.at, "completedAt": app.at}


# -- properties ---------------------------------------------------------------------------------------------------------


@_hubspot("list-properties", "Error listing HubSpot properties for {object_type}: ")
def _list_properties(app: LiveApp, *, object_type: str, archived: bool = False, include_hidden: bool = False) -> Json:
    rows = app.rows(
        "SELECT * FROM property WHERE type = ? AND (? OR NOT hidden) ORDER BY name", kind_of(object_type), int(include_hidden)
    )
    shown = [
        {
            "name": row["name"],
            "label": row["label"],
            "type": row["kind"],
            "description": row["description"],
            "groupName": row["group_name"],
        }
        for row in rows
    ]
    return {"results": [] if archived else shown}


def _property_shape(app: LiveApp, kind: str, name: str) -> Json:
    row = app.one("SELECT * FROM property WHERE type = ? AND name = ?", kind, name)
    if row is None:
        raise api_error(404, f"Property {name[:60]} does not exist for {kind}", "OBJECT_NOT_FOUND")
    named = {
        "name": row["name"],
        "label": row["label"],
        "type": row["kind"],
        "fieldType": row["field"],
        "description": row["description"],
    }
    return named | {"groupName": row["group_name"], "options": json.loads(row["options"]), "hidden": bool(row["hidden"])}


@_hubspot("get-property", "Error retrieving HubSpot property {property_name} for {object_type}: ")
def _get_property(app: LiveApp, *, object_type: str, property_name: str) -> Json:
    return _property_shape(app, kind_of(object_type), property_name)


@_hubspot("create-property", "Error creating HubSpot property: ")
def _create_property(app: LiveApp, *, object_type: str, name: str, label: str, group_name: str, **given: Any) -> Json:
    require_edit(app)
    kind = kind_of(object_type)
    if app.one("SELECT 1 FROM property WHERE type = ? AND name = ?", kind, name):
        raise api_error(409, f"A property named '{name[:60]}' already exists.", "OBJECT_ALREADY_EXISTS")
    if not name.isidentifier() or name != name.lower() or len(name) > 100:
        raise api_error(
            400, f"Property name '{name[:60]}' must be lower-case letters, digits and underscores", "VALIDATION_ERROR"
        )
    columns = {
        "kind": given.get("type", "string"),
        "field": given.get("field_type", "text"),
        "description": given.get("description", ""),
    }
    options = json.dumps(given.get("options") or [])
    app.insert(
        "property",
        type=kind,
        name=name,
        label=label,
        group_name=group_name,
        options=options,
        hidden=int(bool(given.get("hidden"))),
        **columns,
    )
    return _property_shape(app, kind, name)


@_hubspot("update-property", "Error updating HubSpot property: ")
def _update_property(app: LiveApp, *, object_type: str, property_name: str, **given: Any) -> Json:
    require_edit(app)
    kind = kind_of(object_type)
    _property_shape(app, kind, property_name)
    columns = {"label": "label", "description": "description", "group_name": "group_name", "type": "kind", "field_type": "field"}
    for name, column in columns.items():
        if given.get(name) is not None:
            app.run(f"UPDATE property SET {column} = ? WHERE type = ? AND name = ?", given[name], kind, property_name)
    if given.get("options") is not None:
        app.run("UPDATE property SET options = ? WHERE type = ? AND name = ?", json.dumps(given["options"]), kind, property_name)
    return _property_shape(app, kind, property_name)


# -- notes and tasks ----------------------------------------------------------------------------------------------------


@_hubspot("create-engagement", "Error creating HubSpot engagement: ")
def _create_engagement(
    app: LiveApp, *, type: str, owner_id: int, associations: Json, metadata: Json, timestamp: int | None = None
) -> Json:
    kind = "notes" if type == "NOTE" else "tasks"
    moment = parse_moment("timestamp", str(timestamp)) if timestamp is not None else app.at
    number = create_object(app, kind, {"hubspot_owner_id": str(owner_id), "hs_timestamp": moment, **_content(kind, metadata)})
    _engage(app, kind, number, associations)
    shown = _engagement_shape(app, find_object(app, kind, str(number)))
    return {"status": "success", "engagement": shown, "message": f"Successfully created {type.lower()} engagement"}


def _content(kind: str, metadata: Json) -> Json:
    """The metadata of an engagement as properties."""
    if kind == "notes":
        names = {"body": "hs_note_body"}
    else:
        names = {"body": "hs_task_body", "subject": "hs_task_subject", "status": "hs_task_status", "priority": "hs_task_priority"}
        metadata = {"status": "NOT_STARTED", **metadata}
    return {property_name: str(metadata[name]) for name, property_name in names.items() if metadata.get(name) is not None}


def _engage(app: LiveApp, kind: str, number: int, associations: Json) -> None:
    for name, other in _ENGAGED.items():
        for each in cast("list[Any]", associations.get(name) or []):
            associate(app, (other, kind), (find_object(app, other, str(each))["id"], number))


def _engagement_shape(app: LiveApp, row: Json) -> Json:
    number, kind = row["id"], row["type"]
    stamp = int(
        datetime.fromisoformat(value_of(app, number, "hs_timestamp") or row["created"]).replace(tzinfo=UTC).timestamp() * 1000
    )
    created = int(datetime.fromisoformat(row["created"]).timestamp() * 1000)
    owner = value_of(app, number, "hubspot_owner_id")
    engagement = {
        "id": number,
        "active": True,
        "type": "NOTE" if kind == "notes" else "TASK",
        "timestamp": stamp,
        "createdAt": created,
    }
    links = {
        name: [
            each["to_id"]
            for each in app.rows("SELECT to_id FROM association WHERE from_id = ? AND to_type = ? ORDER BY to_id", number, other)
        ]
        for name, other in _ENGAGED.items()
    }
    names = (
        {"body": "hs_note_body"}
        if kind == "notes"
        else {"body": "hs_task_body", "subject": "hs_task_subject", "status": "hs_task_status"}
    )
    content = {name: value_of(app, number, stored) for name, stored in names.items()}
    return {
        "engagement": engagement | {"ownerId": int(owner) if owner else None, "portalId": app.value("SELECT id FROM portal")},
        "associations": links,
        "metadata": {name: value for name, value in content.items() if value is not None},
    }


def _find_engagement(app: LiveApp, number: int) -> Json:
    row = app.one("SELECT * FROM object WHERE id = ? AND type IN ('notes', 'tasks') AND NOT archived", number)
    if row is None:
        raise api_error(404, f"No engagement found for id {number}", "OBJECT_NOT_FOUND")
    return row


@_hubspot("get-engagement", "Error retrieving HubSpot engagement: ")
def _get_engagement(app: LiveApp, *, engagement_id: int) -> Json:
    return _engagement_shape(app, _find_engagement(app, engagement_id))


@_hubspot("update-engagement", "Error updating HubSpot engagement: ")
def _update_engagement(
    app: LiveApp,
    *,
    engagement_id: int,
    metadata: Json,
    associations: Json,
    owner_id: int | None = None,
    timestamp: int | None = None,
) -> Json:
    row = _find_engagement(app, engagement_id)
    require_edit(app, row["id"])
    changes = _content(row["type"], {"status": value_of(app, row["id"], "hs_task_status"), **metadata})
    if owner_id is not None:
        changes["hubspot_owner_id"] = str(owner_id)
    if timestamp is not None:
        changes["hs_timestamp"] = parse_moment("timestamp", str(timestamp))
    set_properties(app, row["type"], row["id"], changes)
    _engage(app, row["type"], row["id"], associations)
    shown = _engagement_shape(app, _find_engagement(app, engagement_id))
    return {"status": "success", "engagement": shown, "message": f"Successfully updated engagement with ID: {engagement_id}"}


@CRM.event
def object_changes(app: LiveApp, object_type: str, object_id: str, properties: Json) -> None:
    """Something changes an object: a colleague, an import, a customer's form."""
    row = find_object(app, kind_of(object_type), object_id)
    set_properties(app, row["type"], row["id"], properties)


@CRM.event
def object_arrives(app: LiveApp, object_type: str, properties: Json) -> None:
    """A new object appears, such as a contact from a form."""
    create_object(app, kind_of(object_type), properties)
