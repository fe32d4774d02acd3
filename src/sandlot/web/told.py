"""What a reader posts, checked: the name of the reader, a rollout, a label, a note."""

from collections.abc import Mapping
from typing import Any

from sandlot.analysis.triage.labels import NOTE_CHARS, reader_name
from sandlot.core.errors import ConfigError
from sandlot.web.site import Site


def reader_of(site: Site) -> str:
    """The name under which labels are stored; empty if the pages only read."""
    return reader_name(site.reader) if site.reader else ""


def require_reader(site: Site) -> str:
    """The name under which labels are stored; `ConfigError` if the pages only read."""
    if not site.reader:
        raise ConfigError("labels and notes need the name of their reader; start the view with `--reader NAME`")
    return reader_name(site.reader)


def told_rollout(told: Mapping[str, Any]) -> tuple[str, int]:
    """The task and the number of the rollout that is meant."""
    task, rollout = told.get("task"), told.get("rollout")
    if not isinstance(task, str) or not is_whole(rollout):
        raise ConfigError("name the rollout: `task` is a text and `rollout` a whole number")
    return task, told["rollout"]


def is_whole(value: object) -> bool:
    """True for a whole number; JSON's true and false are none."""
    return isinstance(value, int) and not isinstance(value, bool)


def told_text(told: Mapping[str, Any], name: str) -> str:
    """A text that was posted; empty if it was not."""
    text = told.get(name, "")
    if not isinstance(text, str):
        raise ConfigError(f"`{name}` must be a text")
    return text


def told_note(told: Mapping[str, Any]) -> str:
    """The note that was posted. A long one is refused, not cut."""
    note = told_text(told, "note").strip()
    if len(note) > NOTE_CHARS:
        raise ConfigError(f"the note has {len(note):,} characters; the most is {NOTE_CHARS:,}")
    return note
