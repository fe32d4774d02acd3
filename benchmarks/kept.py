"""Rows of benchmarks that are measured one by one, because all of them together take hours: the last of each, with its date.

They are kept in the cache of the machine that measured them. A row that only the table has, measured on another machine, stays
there as it is until it is measured again.
"""

import json
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any

from peers import CACHE
from report import ChildFailedError, Row, say, standing_rows

_TOTAL = "all: tasks"


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


def with_standing(name: str, measured: Sequence[Row], is_current: Callable[[str], bool]) -> list[Row]:
    """The rows, those of the table that were not measured here, and the sum of all tasks.

    `is_current` says of the label of a row of the table whether it stays.
    """
    new = {row.what: row for row in measured}
    old = {row.what: row for row in standing_rows(name) if row.what != _TOTAL and is_current(row.what)}
    rows = [*(old | new).values()]
    return [*rows, Row(_TOTAL, sum(int(str(row.ours).replace(",", "")) for row in rows))]
