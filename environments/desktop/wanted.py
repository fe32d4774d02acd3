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
    explained = {want["path"] for want in wants}
    return [path for path in sorted(evidence.diff()) if path not in explained and is_users(path)]


def is_users(path: str) -> bool:
    return path.startswith(f"{HOME}/") and not path.removeprefix(f"{HOME}/").startswith(".")


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
    """Only after its other half: what was moved must be where it should be; a file that is only deleted counts nothing."""
    left = evidence.kind(want["path"]) is not None
    moved = "then" not in want or met(evidence, want["then"])[0] == 1
    return float(
        not left and moved
    ), f"{want['path']} is {'still there' if left else 'gone' if moved else 'gone, and nowhere else'}"


def _cells(evidence: Evidence, want: Want) -> Found:
    cells = gnumeric_cells(_read(evidence, want)).get(want["sheet"], {})
    right = [place for place, wanted in want["cells"].items() if _same(cells.get(place, ""), wanted)]
    kept = all(_same(cells.get(place, ""), wanted) for place, wanted in want["keep"].items())
    wrong = {place: cells.get(place, "") for place in want["cells"] if place not in right}
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


def _setting(evidence: Evidence, want: Want) -> Found:
    value = key_value(_read(evidence, want), want["section"], want["key"])
    return float(value == want["value"]), f"{want['key']} is {value}"


def _untouched(evidence: Evidence, want: Want) -> Found:
    """Other settings are as they were; it counts once something else of the job is done."""
    data = _read(evidence, want)
    changed = [key for key in want["keys"] if key_value(data, want["section"], key) is not None]
    done = any(met(evidence, other)[0] for other in want["then"])
    return float(done and not changed), f"also changed: {', '.join(changed) or 'nothing'}"


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
    "text": _text,
    "gone": _gone,
    "cells": _cells,
    "zip": _zip,
    "setting": _setting,
    "untouched": _untouched,
    "element": _element,
    "page": _page,
    "entry": _entry,
}
