"""The list of runs of a folder, and which of them are being written now."""

import time
from functools import partial
from pathlib import Path
from typing import Any

from sandlot.core.text import one_line
from sandlot.run.catalog import catalog_entry
from sandlot.store.lock import is_live
from sandlot.web.site import Asked


def list_page(asked: Asked) -> dict[str, Any]:
    """All runs of a folder, newest first."""
    folder, now = asked.site.folder, time.time()
    places = [path.parent for path in folder.glob("*/manifest.json")] if folder.is_dir() else []
    entries = [asked.site.memory.recall(path, "entry", partial(catalog_entry, path)) for path in places]
    entries.sort(key=lambda entry: (-entry.created, entry.run))
    rows = [
        {
            "entry": entry,
            "name": Path(entry.run).name,
            "live": is_live(Path(entry.run)),
            "age": _age(now - entry.created),
            "failed": sum(entry.failed.values()),
            "sides": ", ".join(f"{side} {count:,}" for side, count in entry.failed.items()),
            "why": one_line(entry.problem or entry.stopped or "", 300),
        }
        for entry in entries
    ]
    return {"title": "runs", "folder": str(folder.resolve()), "rows": rows}


def _age(seconds: float) -> str:
    for size, unit in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= size:
            return f"{seconds / size:.0f} {unit}"
    return f"{max(0, seconds):.0f} s"
