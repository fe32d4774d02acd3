"""Rows of benchmarks that are measured one by one, because all of them together take hours: the last of each, with its date."""

import json
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from peers import CACHE
from report import ChildFailedError, say


def kept_rows(name: str) -> dict[str, dict[str, Any]]:
    """The rows of a benchmark, by label."""
    place = CACHE / f"{name}.json"
    return json.loads(place.read_text()) if place.is_file() else {}


def keep_row(name: str, label: str, measured: Callable[[], dict[str, Any]]) -> None:
    """Measure a row and put it in place of its last one. A row that cannot be measured is its error."""
    say(f"{label} ...")
    found: dict[str, Any] = {"when": datetime.now(tz=UTC).strftime("%m-%d %H:%M")}
    try:
        found |= measured()
    except (ChildFailedError, ValueError) as error:
        found |= {"error": str(error)[-1500:]}
    say(f"{label}: {found}")
    place = CACHE / f"{name}.json"
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text(json.dumps(kept_rows(name) | {label: found}, indent=1))
