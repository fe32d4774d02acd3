"""HubSpot's search: words over the searchable properties, and groups of filters, combined as HubSpot does."""

import re
from collections.abc import Sequence
from typing import Any, cast

from sandlot.apps.crm.objects import api_error, parse_moment
from sandlot.apps.live import LiveApp
from sandlot.apps.words import fits_wildcard, match_expression
from sandlot.core.types import Json

_MAX_GROUPS, _MAX_FILTERS = 5, 18
_FIXED = {"hs_object_id": "id", "createdate": "created", "lastmodifieddate": "updated", "hs_lastmodifieddate": "updated"}


def find_objects(app: LiveApp, kind: str, query: str | None, groups: Sequence[Json], sorts: Sequence[Json]) -> list[Json]:
    """The objects that match, in order; `ToolError` for a filter that cannot be."""
    if len(groups) > _MAX_GROUPS or sum(len(group["filters"]) for group in groups) > _MAX_FILTERS:
        raise api_error(
            400, f"There are at most {_MAX_GROUPS} filterGroups with {_MAX_FILTERS} filters in all", "VALIDATION_ERROR"
        )
    rows = app.rows("SELECT * FROM object WHERE type = ? AND NOT archived ORDER BY id", kind)
    if query:
        words = match_expression(" ".join(f"{word}*" for word in re.findall(r"\w+", query)))
        found = app.rows("SELECT rowid FROM object_words WHERE object_words MATCH ?", words) if words else []
        ids = {row["rowid"] for row in found}
        rows = [row for row in rows if row["id"] in ids]
    filters = [each for group in groups for each in group["filters"]]
    names = {each["propertyName"] for each in [*filters, *sorts]}
    values = _values(app, kind, names)
    kinds = {each["name"]: each["kind"] for each in app.rows("SELECT name, kind FROM property WHERE type = ?", kind)}
    for name in names:
        if name not in kinds and name not in _FIXED and name != "associations.contact":
            raise api_error(400, f"There was a problem with the request: no property `{name[:60]}` of {kind}", "VALIDATION_ERROR")

    def value(row: Json, name: str) -> Any:
        return row[_FIXED[name]] if name in _FIXED else values.get((row["id"], name))

    kept = [
        row
        for row in rows
        if not groups
        or any(
            all(
                _matches(value(row, each["propertyName"]), kinds.get(each["propertyName"], "string"), each)
                for each in group["filters"]
            )
            for group in groups
        )
    ]
    for sort in reversed(sorts):
        name = sort["propertyName"]
        form = kinds.get(name, "string")
        kept.sort(key=lambda row: _order(value(row, name), form), reverse=sort["direction"] == "DESCENDING")
    return kept


def _values(app: LiveApp, kind: str, names: set[str]) -> dict[tuple[int, str], str]:
    found: dict[tuple[int, str], str] = {}
    for name in sorted(names):
        sql = "SELECT v.object, v.value FROM property_value v JOIN object o ON o.id = v.object WHERE o.type = ? AND v.name = ?"
        found |= {(row["object"], name): row["value"] for row in app.rows(sql, kind, name)}
    return found


def _order(value: Any, form: str) -> tuple[bool, Any]:
    if value is None:
        return (False, 0.0 if form == "number" else "")
    return (True, _number(value) if form == "number" else str(value).lower())


def _number(value: Any) -> float:
    try:
        return float(value)
    except (TypeError, ValueError) as error:
        raise api_error(400, f"{str(value)[:60]} is not a number", "VALIDATION_ERROR") from error


def _comparable(value: Any, form: str, name: str) -> Any:
    if form == "number" or name == "hs_object_id":
        return _number(value)
    return parse_moment(name, str(value)) if form in {"datetime", "date"} else str(value).lower()


def _matches(stored: Any, form: str, given: Json) -> bool:
    operator, name = given["operator"], given["propertyName"]
    if operator in {"HAS_PROPERTY", "NOT_HAS_PROPERTY"}:
        return (stored is not None) == (operator == "HAS_PROPERTY")
    if operator in {"IN", "NOT_IN"}:
        wanted = {_comparable(each, form, name) for each in cast("list[Any]", given.get("values") or [])}
        inside = stored is not None and _comparable(stored, form, name) in wanted
        return inside if operator == "IN" else stored is not None and not inside
    if given.get("value") is None:
        raise api_error(400, f"The operator {operator} on `{name}` needs a value", "VALIDATION_ERROR")
    if stored is None:
        return operator in {"NEQ", "NOT_CONTAINS_TOKEN"}
    if operator in {"CONTAINS_TOKEN", "NOT_CONTAINS_TOKEN"}:
        return _has_token(str(stored), str(given["value"])) == (operator == "CONTAINS_TOKEN")
    have, low = _comparable(stored, form, name), _comparable(given["value"], form, name)
    if operator == "BETWEEN":
        if given.get("highValue") is None:
            raise api_error(400, f"The operator BETWEEN on `{name}` needs a highValue", "VALIDATION_ERROR")
        return low <= have <= _comparable(given["highValue"], form, name)
    return {"EQ": have == low, "NEQ": have != low, "LT": have < low, "LTE": have <= low, "GT": have > low, "GTE": have >= low}[
        operator
    ]


def _has_token(text: str, token: str) -> bool:
    """True if a word of the text is the token; `*` stands for any letters."""
    words = re.findall(r"[^\s@.,;/-]+", text.lower())
    wanted = re.findall(r"[^\s@.,;/-]+", token.lower()[:200])
    if not wanted:
        return False
    return all(any(fits_wildcard(word, each) for word in words) for each in wanted)
