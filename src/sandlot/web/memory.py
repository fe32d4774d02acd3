"""What pages have computed from a run, kept until a file of the run changes."""

import threading
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

_Value = TypeVar("_Value")
_MOST = 256
"""Results that are kept; the oldest goes first."""
_FOLDERS = (".", "log", "segments", "evaluations")


class Memory:
    """Results by run and name. Two pages that ask at once may both compute; neither waits for the other."""

    def __init__(self) -> None:
        self._kept: OrderedDict[tuple[Path, str], tuple[Any, Any]] = OrderedDict()
        self._lock = threading.Lock()

    def recall(self, run: Path, name: str, build: Callable[[], _Value]) -> _Value:
        """What `build` returned for the run as it is now."""
        stamp, key = stamp_of(run), (run, name)
        with self._lock:
            found = self._kept.get(key)
        if found is not None and found[0] == stamp:
            return found[1]
        value = build()
        with self._lock:
            self._kept[key] = (stamp, value)
            self._kept.move_to_end(key)
            while len(self._kept) > _MOST:
                self._kept.popitem(last=False)
        return value


def stamp_of(run: Path) -> tuple[Any, ...]:
    """Different whenever a file of the run has changed: names, sizes and times. The event log is left out: no result reads it."""
    found: list[tuple[str, int, int]] = []
    for name in _FOLDERS:
        folder = run / name
        for path in sorted(folder.iterdir()) if folder.is_dir() else ():
            try:
                state = path.stat()
            except FileNotFoundError:
                continue  # sealed meanwhile: its segment is in the list, or will be next time
            if path.is_file() and path.name not in {"events.jsonl", "lock"}:
                found.append((f"{name}/{path.name}", state.st_size, state.st_mtime_ns))
    return tuple(found)
