"""The pages of the CRM, for agents that use a browser: lists, one record with its activity, forms. No JavaScript."""

import json
from pathlib import Path
from typing import Any

from sandlot.apps.crm.objects import CRM, owner_of
from sandlot.apps.crm.tables import PROPERTIES
from sandlot.apps.live import LiveApp
from sandlot.apps.page_tools import Listed, PageTools, lines, page_number
from sandlot.apps.pages import PageRequest, PageResponse, render
from sandlot.core.errors import ToolError
from sandlot.core.types import Json

_HERE = Path(__file__).parent / "templates"
_TOOLS = PageTools(CRM, r"\A(Error [\w ,{}]+\.? ?: )")
_PAGE = 25
_KINDS = {
    "contacts": ("Contact", "Contacts", ("firstname", "lastname", "email", "phone", "company", "lifecyclestage")),
    "companies": ("Company", "Companies", ("name", "domain", "industry", "city", "country", "lifecyclestage")),
    "deals": ("Deal", "Deals", ("dealname", "dealstage", "amount", "closedate")),
    "tickets": ("Ticket", "Tickets", ("subject", "hs_pipeline_stage", "hs_ticket_priority")),
    "tasks": ("Task", "Tasks", ("hs_task_subject", "hs_task_status", "hs_task_priority", "hs_timestamp")),
    "notes": ("Note", "Notes", ("hs_note_body", "hs_timestamp")),
}
"""What has pages: the name of one and of many, and the columns of its list. The first columns are its name."""
_LINKED = ("contacts", "companies", "deals", "tickets")
_LONG = {"description", "content", "hs_note_body", "hs_task_body"}
_ENGAGED = {"contacts": "contactIds", "companies": "companyIds", "deals": "dealIds", "tickets": "ticketIds"}


def _do(app: LiveApp, tool: str, **arguments: Any) -> Any:
    """What a tool returns; the reason of an error without the interface's words around it."""
    try:
        return _TOOLS.do(app, f"hubspot-{tool}", **arguments)
    except ToolError as error:
        _, found, body = str(error).partition(" - {")
        try:
            message = str(json.loads(f"{{{body}")["message"]) if found else str(error)
        except (ValueError, KeyError):
            message = str(error)
        head, listed, problems = message.partition("Property values were not valid: ")
        if listed:
            message = head + " ".join(str(each["message"]) for each in json.loads(problems))
        raise ToolError(message) from error


def _page(app: LiveApp, template: str, **values: Any) -> PageResponse:
    return render(_HERE, template, actor=app.actor, kinds=_KINDS, **values)


def _kind(name: str) -> str:
    if name not in _KINDS:
        raise ToolError(f"There is no page for `{name[:40]}`.")
    return name


def _owners(app: LiveApp) -> list[tuple[str, str]]:
    rows = app.rows("SELECT * FROM owner ORDER BY first_name, last_name, id")
    return [(str(row["id"]), f"{row['first_name']} {row['last_name']}") for row in rows]


def _properties(app: LiveApp, kind: str) -> list[Json]:
    """What can be set of a type of object, in the product's order, with its options."""
    rows = app.rows("SELECT * FROM property WHERE type = ? AND NOT hidden AND NOT read_only", kind)
    order = {name: place for place, name in enumerate(PROPERTIES[kind])}
    rows.sort(key=lambda row: (row["name"] == "hubspot_owner_id", order.get(row["name"], len(order)), row["name"]))
    shown: list[Json] = []
    for row in rows:
        options = [(each["value"], each["label"]) for each in json.loads(row["options"])]
        options = _owners(app) if row["name"] == "hubspot_owner_id" else options
        shown.append({"name": row["name"], "label": row["label"], "options": options, "long": row["name"] in _LONG})
    return shown


def _worded(properties: list[Json], values: Json) -> Json:
    """The values of an object as a person reads them: options by their label, times without seconds."""
    labels = {each["name"]: dict(each["options"]) for each in properties}
    found: Json = {}
    for name, value in values.items():
        text = "" if value is None else str(value)
        found[name] = labels.get(name, {}).get(text, text)
        if name in {"closedate", "createdate"} or name.endswith(("timestamp", "_time", "modifieddate")):
            found[name] = text[:16].replace("T", " ").removesuffix(" 00:00")
    return found


def _title(kind: str, values: Json) -> str:
    names = ("firstname", "lastname") if kind == "contacts" else _KINDS[kind][2][:1]
    return " ".join(str(values[name]) for name in names if values.get(name))[:120] or str(values.get("email") or "(no name)")


def _read(app: LiveApp, kind: str, number: str) -> Json:
    """An object with all its properties; `ToolError` if there is none."""
    names = [each["name"] for each in _properties(app, kind)]
    found = _do(app, "batch-read-objects", objectType=kind, inputs=[{"id": number}], properties=names)["results"]
    if not found:
        raise ToolError(f"There is no such {_KINDS[kind][0].lower()}.")
    return found[0]


# -- lists --------------------------------------------------------------------------------------------------------------


@CRM.page("GET", "/")
def _home(app: LiveApp, _request: PageRequest) -> PageResponse:
    mine = owner_of(app)
    owned: list[Json] = [{"propertyName": "hubspot_owner_id", "operator": "EQ", "value": str(mine["id"])}] if mine else []
    wanted = [*owned, {"propertyName": "dealstage", "operator": "NOT_IN", "values": ["closedwon", "closedlost"]}]
    deals = _rows(app, "deals", filterGroups=[{"filters": wanted}], limit=20)
    undone = [*owned, {"propertyName": "hs_task_status", "operator": "NEQ", "value": "COMPLETED"}]
    tasks = _rows(app, "tasks", filterGroups=[{"filters": undone}], limit=20)
    counts = {kind: app.value("SELECT count(*) FROM object WHERE type = ? AND NOT archived", kind) for kind in _KINDS}
    return _page(app, "home.html", counts=counts, deals=deals, tasks=tasks)


def _rows(app: LiveApp, kind: str, **search: Any) -> list[Json]:
    """What a search finds, with the columns of the list."""
    columns, properties = [*_KINDS[kind][2], "hubspot_owner_id"], _properties(app, kind)
    found = _do(app, "search-objects", objectType=kind, properties=columns, **search)["results"]
    return [
        {"id": each["id"], "title": _title(kind, each["properties"]), "cells": _worded(properties, each["properties"])}
        for each in found
    ]


@CRM.page("GET", "/{kind}")
def _list(app: LiveApp, request: PageRequest, kind: str) -> PageResponse:
    given, page, columns = request.query, page_number(request), _KINDS[_kind(kind)][2]
    properties = _properties(app, kind)
    filters = [
        {"propertyName": each["name"], "operator": "EQ", "value": given[each["name"]]}
        for each in properties
        if each["options"] and given.get(each["name"])
    ]
    search: Json = {"filterGroups": [{"filters": filters}]} if filters else {}
    sort = given.get("sort", "")
    if sort.removeprefix("-") in columns:
        down = "DESCENDING" if sort.startswith("-") else "ASCENDING"
        search["sorts"] = [{"propertyName": sort.removeprefix("-"), "direction": down}]
    query = given.get("q", "").strip()
    rows = _rows(app, kind, query=query or None, limit=_PAGE + 1, after=str((page - 1) * _PAGE), **search)
    labels = {each["name"]: each["label"] for each in properties}
    shown = [each for each in properties if each["options"] and each["name"] in {*columns, "hubspot_owner_id"}]
    return _page(
        app,
        "list.html",
        kind=kind,
        found=Listed(rows[:_PAGE], page, len(rows) > _PAGE),
        columns=[(name, labels.get(name, name)) for name in columns],
        filters=shown,
        given={each["name"]: given.get(each["name"], "") for each in shown},
        query=query,
        sort=sort,
    )


# -- forms --------------------------------------------------------------------------------------------------------------


@CRM.page("GET", "/{kind}/new")
def _new_form(app: LiveApp, request: PageRequest, kind: str) -> PageResponse:
    values: Json = {}
    if (mine := owner_of(app)) is not None:
        values["hubspot_owner_id"] = str(mine["id"])
    link = {name: request.query.get(name, "") for name in ("with", "number")}
    return _page(
        app, "edit.html", kind=_kind(kind), number="", title="", properties=_properties(app, kind), values=values, link=link
    )


def _given(app: LiveApp, request: PageRequest, kind: str) -> dict[str, str]:
    names = [each["name"] for each in _properties(app, kind)]
    return {name: lines(request, name).strip() for name in names if name in request.form}


@CRM.page("POST", "/{kind}/new")
def _new(app: LiveApp, request: PageRequest, kind: str) -> PageResponse:
    given = {name: value for name, value in _given(app, request, _kind(kind)).items() if value}
    made = _do(app, "batch-create-objects", objectType=kind, inputs=[{"properties": given}])["results"][0]
    other, number = request.form.get("with", ""), request.form.get("number", "")
    if other and number:
        _associate(app, (kind, made["id"]), (_kind(other), number))
    return PageResponse.redirect(f"/{kind}/{made['id']}")


@CRM.page("GET", "/{kind}/{number}/edit")
def _edit_form(app: LiveApp, _request: PageRequest, kind: str, number: str) -> PageResponse:
    found = _read(app, _kind(kind), number)
    values, link = found["properties"], {"with": "", "number": ""}
    if (moment := values.get("closedate")) is not None:
        values = values | {"closedate": str(moment)[:10]}
    properties, title = _properties(app, kind), _title(kind, values)
    return _page(app, "edit.html", kind=kind, number=number, title=title, properties=properties, values=values, link=link)


@CRM.page("POST", "/{kind}/{number}/edit")
def _edit(app: LiveApp, request: PageRequest, kind: str, number: str) -> PageResponse:
    """Only what differs is written, so that nothing else gets into the history of the record."""
    before = _read(app, _kind(kind), number)["properties"]
    given = _given(app, request, kind)
    if given.get("closedate") and given["closedate"] == str(before.get("closedate"))[:10]:
        del given["closedate"]
    changed = {name: value for name, value in given.items() if value != (before.get(name) or "")}
    if changed:
        _do(app, "batch-update-objects", objectType=kind, inputs=[{"id": number, "properties": changed}])
    return PageResponse.redirect(f"/{kind}/{number}")


# -- one record ---------------------------------------------------------------------------------------------------------


def _linked(app: LiveApp, kind: str, number: str, other: str) -> list[Json]:
    """The objects of a type that one is associated with."""
    found = _do(app, "list-associations", objectType=kind, objectId=number, toObjectType=other)["results"]
    return [_shown(app, other, str(each["toObjectId"])) for each in found]


def _shown(app: LiveApp, kind: str, number: str) -> Json:
    found = _read(app, kind, number)
    cells = _worded(_properties(app, kind), found["properties"])
    return {"id": number, "title": _title(kind, found["properties"]), "cells": cells, "created": found["createdAt"]}


@CRM.page("GET", "/{kind}/{number}")
def _show(app: LiveApp, _request: PageRequest, kind: str, number: str) -> PageResponse:
    shown, properties = _shown(app, _kind(kind), number), _properties(app, kind)
    linked = {other: _linked(app, kind, number, other) for other in _LINKED if _can_link(app, kind, other)}
    activity = kind in _ENGAGED
    return _page(
        app,
        "record.html",
        kind=kind,
        record=shown,
        properties=properties,
        linked=linked,
        notes=_linked(app, kind, number, "notes")[::-1] if activity else [],
        tasks=_linked(app, kind, number, "tasks")[::-1] if activity else [],
        activity=activity,
    )


def _can_link(app: LiveApp, kind: str, other: str) -> bool:
    return app.one("SELECT 1 FROM association_type WHERE from_type = ? AND to_type = ?", kind, other) is not None


def _associate(app: LiveApp, start: tuple[str, str], end: tuple[str, str]) -> None:
    types = _do(app, "get-association-definitions", fromObjectType=start[0], toObjectType=end[0])["results"]
    plain = [each for each in types if each["label"] is None] or types
    if not plain:
        raise ToolError(f"{_KINDS[start[0]][1]} cannot be associated with {_KINDS[end[0]][1].lower()}.")
    wanted = [{"associationCategory": plain[0]["category"], "associationTypeId": plain[0]["typeId"]}]
    ends = [{"from": {"id": start[1]}, "to": {"id": end[1]}}]
    _do(app, "batch-create-associations", fromObjectType=start[0], toObjectType=end[0], types=wanted, inputs=ends)


@CRM.page("POST", "/{kind}/{number}/associate")
def _add_association(app: LiveApp, request: PageRequest, kind: str, number: str) -> PageResponse:
    _associate(app, (_kind(kind), number), (_kind(request.form.get("with", "")), request.form.get("other", "").strip()))
    return PageResponse.redirect(f"/{kind}/{number}")


@CRM.page("POST", "/{kind}/{number}/note")
def _add_note(app: LiveApp, request: PageRequest, kind: str, number: str) -> PageResponse:
    _engage(app, kind, number, "NOTE", {"body": lines(request, "body")})
    return PageResponse.redirect(f"/{kind}/{number}")


@CRM.page("POST", "/{kind}/{number}/task")
def _add_task(app: LiveApp, request: PageRequest, kind: str, number: str) -> PageResponse:
    form = request.form
    content = {"subject": form.get("subject", ""), "body": lines(request, "task_body"), "status": "NOT_STARTED"}
    made = _engage(app, kind, number, "TASK", content)
    if form.get("due"):
        moment = {"id": str(made), "properties": {"hs_timestamp": form["due"]}}
        _do(app, "batch-update-objects", objectType="tasks", inputs=[moment])
    return PageResponse.redirect(f"/{kind}/{number}")


def _engage(app: LiveApp, kind: str, number: str, type: str, metadata: Json) -> int:
    if kind not in _ENGAGED or not number.isdecimal() or len(number) > 15:
        raise ToolError(f"There is no page for `{kind[:40]}/{number[:40]}`.")
    if not (metadata.get("subject") or metadata["body"]).strip():
        raise ToolError("Write something first.")
    mine = owner_of(app)
    if mine is None:
        raise ToolError("You are not a user of this CRM.")
    links: dict[str, list[int]] = {name: list[int]() for name in (*_ENGAGED.values(), "ownerIds")}
    links[_ENGAGED[kind]] = [int(number)]
    made = _do(app, "create-engagement", type=type, ownerId=mine["id"], associations=links, metadata=metadata)
    return int(made["engagement"]["engagement"]["id"])
