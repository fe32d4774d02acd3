"""Compares what is on the disk at the end with what a job wants. Each want is met by a share from 0 to 1, with a reason."""

from collections.abc import Callable
from typing import Any

from sandlot import Evidence

from .formats import Unreadable, gnumeric_cells, key_value, parse_xml, zim_body, zip_members
from .job import HOME, Want

Found = tuple[float, str]


def met(evidence: Evidence, want: Want) -> Found:
    """How far a want is met, and why."""
    try:
        return _KINDS[want["kind"]](evidence, want)
    except Unreadable as error:
        return 0.0, f"{want['path']}: {error}"


def shares(evidence: Evidence, wants: list[Want]) -> list[Found]:
    return [met(evidence, want) for want in wants]


def other_changes(evidence: Evidence, wants: list[Want]) -> list[str]:
    """Files of the user that changed and that no want explains. Settings and caches of applications are not the user's files."""
    explained = {path for want in wants for path in _paths(want)}
    return [path for path in sorted(evidence.diff()) if path not in explained and is_users(path)]


def _paths(want: Want) -> list[str]:
    return [path for part in want["wants"] for path in _paths(part)] if want["kind"] == "all" else [want["path"]]


def is_users(path: str) -> bool:
    return path.startswith(f"{HOME}/") and not path.removeprefix(f"{HOME}/").startswith(".")


def _all(evidence: Evidence, want: Want) -> Found:
    """Several parts that only count together."""
    found = shares(evidence, want["wants"])
    return float(all(share == 1 for share, _ in found)), ", ".join(reason for _, reason in found)


def _read(evidence: Evidence, want: Want) -> bytes:
    if not evidence.exists(want["path"]):
        raise Unreadable("there is no such file")
    return evidence.read(want["path"])


def _text(evidence: Evidence, want: Want) -> Found:
    try:
        text = _read(evidence, want).decode()
    except UnicodeDecodeError:
        return 0.0, f"{want['path']} is not UTF-8"
    right = text.rstrip() == want["text"].rstrip()
    return float(right), f"{want['path']} {'is right' if right else f'reads {text[:200]!r}'}"


def _gone(evidence: Evidence, want: Want) -> Found:
    """With `then`, it counts only once the other want is met: what is to be deleted last is not deleted first."""
    left = evidence.kind(want["path"]) is not None
    in_turn = "then" not in want or met(evidence, want["then"])[0] == 1
    return float(not left and in_turn), f"{want['path']} is {'still there' if left else 'gone' if in_turn else 'gone too early'}"


def _cells(evidence: Evidence, want: Want) -> Found:
    """The share of the cells that are right; headings (`labels`) count only beside another cell that is."""
    cells = gnumeric_cells(_read(evidence, want)).get(want["sheet"], {})
    right = [place for place, wanted in want["cells"].items() if _same(cells.get(place, ""), wanted)]
    kept = all(_same(cells.get(place, ""), wanted) for place, wanted in want["keep"].items())
    wrong = {place: cells.get(place, "") for place in want["cells"] if place not in right}
    if set(right) <= set(want.get("labels", ())):
        right = []
    reason = f"{want['path']}: wrong {wrong}" if wrong else f"{want['path']}: cells are right"
    return len(right) / len(want["cells"]) * kept, reason if kept else f"{want['path']}: cells that had to stay have changed"


def _same(found: str, wanted: str | list[str]) -> bool:
    """Equal as numbers or as text; a list names the forms that are right, such as the ways to write a sum."""
    if isinstance(wanted, list):
        return any(_same(found, each) for each in wanted)
    plain, other = found.strip(), wanted.strip()
    if plain.startswith("=") or other.startswith("="):
        return plain.replace(" ", "").replace("$", "").upper() == other.replace(" ", "").replace("$", "").upper()
    try:
        return abs(float(plain) - float(other)) < 1e-9
    except ValueError:
        return plain == other


def _zip(evidence: Evidence, want: Want) -> Found:
    members = zip_members(_read(evidence, want))
    plain = {name.rpartition("/")[2]: data.decode(errors="replace") for name, data in members.items()}
    right = plain == want["members"] and len(plain) == len(members)
    return float(right), f"{want['path']} has {', '.join(sorted(members)[:12]) or 'nothing'}"


def _switches(evidence: Evidence, want: Want) -> Found:
    """The share of the switches that are on; nothing if one is on that had to stay off."""
    data = _read(evidence, want)
    missing = [key for key in want["on"] if key_value(data, want["section"], key) != "true"]
    changed = [key for key in want["off"] if key_value(data, want["section"], key) not in {None, "false"}]
    reason = f"not on: {', '.join(missing) or 'nothing'}; also changed: {', '.join(changed) or 'nothing'}"
    return (1 - len(missing) / len(want["on"])) * (not changed), reason


def _element(evidence: Evidence, want: Want) -> Found:
    value = parse_xml(_read(evidence, want)).findtext(want["at"])
    return float((value or "").strip() == want["value"]), f"{want['at']} is {value}"


def _page(evidence: Evidence, want: Want) -> Found:
    text = zim_body(_read(evidence, want).decode(errors="replace"))
    lines = [line.strip() for line in text.splitlines() if line.strip() and not line.startswith(("=", "Created "))]
    right = lines == want["lines"]
    return float(right), f"{want['path']} {'is right' if right else f'reads {lines[:20]}'}"


def _entry(evidence: Evidence, want: Want) -> Found:
    """Rows of a HomeBank file: every row that was there is still there, and exactly the wanted ones are new."""
    root = parse_xml(_read(evidence, want))
    names = {each.get("key"): each.get("name") for each in root.iter("pay")}
    rows = [
        {
            "date": each.get("date"),
            "amount": _number(each.get("amount")),
            "account": each.get("account"),
            "payee": names.get(each.get("payee")),
        }
        for each in root.iter("ope")
    ]
    for row in want["keep"]:
        if row not in rows:
            return 0.0, f"{want['path']}: a transaction that had to stay is gone"
        rows.remove(row)
    return float(rows == want["rows"]), f"{want['path']}: new are {rows[:4]}"


def _number(text: str | None) -> float | None:
    try:
        return round(float(text or ""), 2)
    except ValueError:
        return None


_KINDS: dict[str, Callable[[Evidence, dict[str, Any]], Found]] = {
    "all": _all,
    "text": _text,
    "gone": _gone,
    "cells": _cells,
    "zip": _zip,
    "switches": _switches,
    "element": _element,
    "page": _page,
    "entry": _entry,
}
