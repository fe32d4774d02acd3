"""Seed data for the CRM: plain records, or the CSV files that HubSpot imports and exports."""

import csv
import io
from collections.abc import Iterable, Mapping
from typing import Any

from sandlot.apps.crm.objects import associate, checked_value, kind_of, write_value
from sandlot.apps.crm.tables import PROPERTIES
from sandlot.apps.live import LiveApp
from sandlot.core.errors import ConfigError, ToolError
from sandlot.core.types import Json


def load_crm(app: LiveApp, seed: Mapping[str, Any]) -> dict[str, int]:
    """Fill the CRM and return the id of every object by its `ref`.

    - `owners`: dicts with `email`, `first_name`, `last_name`, optional `id`, `title`. Each is an object of the type `users` too.
    - `permissions`: `{"ada@example.com": "all"}`; also `own` and `none`. Without it everyone may change everything.
    - `contacts`, `companies`, `deals`, `tickets`, `products`, `line_items`, `notes`, `tasks`, `meetings`, `calls`, `emails`:
      dicts of properties, and beside them `ref` (a name for this file), `id`, `owner` (an email), `created`, `updated`, and
      `with` (refs of the objects that it is associated with; the primary company of a contact or a deal is `primary`).
    """
    for row in seed.get("owners", ()):
        number = row.get("id") or 7_100_000 + app.new_number()
        user = max(30_001, (app.value("SELECT max(id) FROM object") or 0) + 1)
        app.insert("object", id=user, type="users", created=app.at, updated=app.at)
        named = {"hs_email": row["email"], "hs_given_name": row["first_name"], "hs_family_name": row["last_name"]}
        for name, value in (named | {"hubspot_owner_id": str(number), "hs_job_title": row.get("title", "")}).items():
            write_value(app, user, name, value)
        app.insert(
            "owner",
            id=number,
            user_id=number + 1_000,
            email=row["email"],
            first_name=row["first_name"],
            last_name=row["last_name"],
        )
    refs: dict[str, int] = {}
    links: list[tuple[str, int, str, bool]] = []
    try:
        for kind in PROPERTIES:
            for row in seed.get(kind, ()):
                _load_object(app, kind, dict(row), refs, links)
        for kind, number, ref, primary in links:
            _link(app, (kind, number), ref, refs, primary=primary)
    except ToolError as error:
        raise ConfigError(f"crm: {error}") from error
    for email, edit in dict(seed.get("permissions", {})).items():
        if edit not in {"all", "own", "none"}:
            raise ConfigError(f"crm: `{email}` may edit `{edit}`; use all, own or none")
        app.insert("permission", email=email, edit=edit)
    return refs


def _load_object(app: LiveApp, kind: str, row: Json, refs: dict[str, int], links: list[tuple[str, int, str, bool]]) -> None:
    created = row.pop("created", None) or app.at
    updated = row.pop("updated", None) or created
    number = row.pop("id", None) or max(30_001, (app.value("SELECT max(id) FROM object") or 0) + 1)
    ref = row.pop("ref", None)
    if ref is not None:
        if ref in refs:
            raise ConfigError(f"crm: two objects have the ref `{ref}`")
        refs[ref] = number
    links += [(kind, number, each, False) for each in row.pop("with", ())]
    primary = row.pop("primary", None)
    if primary is not None:
        links.append((kind, number, primary, True))
    owner = row.pop("owner", None)
    if owner is not None:
        found = app.value("SELECT id FROM owner WHERE email = ?", owner)
        if found is None:
            raise ConfigError(f"crm: no owner `{owner}`; list them under `owners`")
        row["hubspot_owner_id"] = str(found)
    if kind == "deals":
        row.setdefault("pipeline", "default")
        row.setdefault("dealstage", "appointmentscheduled")
    app.insert("object", id=number, type=kind, created=created, updated=updated)
    for name, value in row.items():
        if value is not None:
            write_value(app, number, name, checked_value(app, kind, name, value))
    if kind == "deals":
        write_value(app, number, "hs_is_closed", str(row["dealstage"].startswith("closed")).lower())
        write_value(app, number, "hs_is_closed_won", str(row["dealstage"] == "closedwon").lower())


def _link(app: LiveApp, start: tuple[str, int], ref: str, refs: Mapping[str, int], *, primary: bool) -> None:
    number = refs.get(ref)
    kind = app.value("SELECT type FROM object WHERE id = ?", number)
    if number is None or kind is None:
        raise ConfigError(f"crm: an object is associated with `{ref}`, which is the ref of none")
    kinds = (start[0], str(kind))
    associate(app, kinds, (start[1], number))
    if primary:
        row = app.value("SELECT type_id FROM association_type WHERE from_type = ? AND to_type = ? AND label = 'Primary'", *kinds)
        if row is None:
            raise ConfigError(f"crm: {kinds[0]} have no primary {kinds[1]}; use `with`")
        associate(app, kinds, (start[1], number), row)


def read_hubspot_csv(text: str, object_type: str) -> list[Json]:
    """The objects of a CSV file from HubSpot, as `load_crm` takes them.

    Columns are labels or names of properties; `ConfigError` if one is neither.
    """
    kind = kind_of(object_type)
    rows = list(csv.DictReader(io.StringIO(text)))
    labels = {label.lower(): name for name, (_, label) in PROPERTIES[kind].items() if isinstance(label, str)}
    known = {**labels, **{name: name for name in PROPERTIES[kind]}, "record id": "id", "create date": "created"}
    return [_csv_object(known, row) for row in rows]


def _csv_object(known: Mapping[str, str], row: Mapping[str | None, Any]) -> Json:
    found: Json = {}
    for column, value in row.items():
        name = known.get((column or "").strip().lower())
        if name is None:
            names: Iterable[str] = sorted(known)
            raise ConfigError(f"the column `{column}` is no property; known are: {', '.join(names)}")
        if value:
            found[name] = int(value) if name == "id" else value.strip()
    return found
