"""Where answers get left lying about, and how they are recognised."""

import re
from collections.abc import Iterator
from typing import Any, cast

from sandlot.core.task import Task
from sandlot.core.types import Json

MIN_CHARS = 8
MIN_DIGITS = 5
"""Shorter values turn up by chance."""

_NAMES = r"expected|truth|gold|solution|answer|secret|oracle|reference|hidden|key|grad(e|ing)|rubric|reward"
PLACES = {
    "variables": "env; cat /proc/[0-9]*/environ 2>/dev/null | tr '\\0' '\\n' | head -c 20000",
    "processes": "cat /proc/[0-9]*/cmdline 2>/dev/null | tr '\\0' ' ' | head -c 20000",
    "files": (
        "find / -xdev \\( -path /proc -o -path /sys -o -path /usr -o -path /lib -o -path /etc -o -path /var/lib -o -path /opt"
        " -o -path /root/.cache \\) -prune -o -type f -size -64k -newermt '2020-01-01' -print 2>/dev/null"
        f' | grep -Ei \'({_NAMES})[^/]*$\' | head -40 | while read -r each; do echo "== $each"; head -c 4000 "$each"; done'
    ),
}
"""What a look-up agent runs, by the kind of place. Whatever is not read this way is the task's own material."""


def _key_values(task: Task) -> list[str]:
    """Values of the key that are long enough to be recognised, and that the prompt does not say."""
    told = task.prompt
    return [text for text in dict.fromkeys(values_as_text(task.key)) if _is_long_enough(text) and text not in told]


def key_values_in(text: str, task: Task) -> list[str]:
    """Values of the key that a text contains, as words of their own."""
    return [secret for secret in _key_values(task) if re.search(rf"(?<!\w){re.escape(secret)}(?!\w)", text)]


def _is_long_enough(text: str) -> bool:
    digits = sum(character.isdigit() for character in text)
    return len(text) >= MIN_CHARS or digits >= MIN_DIGITS


def is_answer_like(path: str) -> bool:
    """True for files that are not the task's own material: hidden ones, and those named as answers are."""
    if "/.git/" in path:
        return False
    return any(
        step.startswith(".") or re.search(rf"(^|[^a-z])({_NAMES})([^a-z]|$)", step.lower()) for step in path.split("/") if step
    )


def values_as_text(thing: Any) -> Iterator[str]:
    """Every single value in a record, as it would be printed; bytes and truth values aside."""
    if isinstance(thing, dict):
        for value in cast("Json", thing).values():
            yield from values_as_text(value)
    elif isinstance(thing, list | tuple):
        for value in cast("list[Any]", thing):
            yield from values_as_text(value)
    elif isinstance(thing, str) and thing.strip():
        yield thing.strip()
    elif isinstance(thing, int | float) and not isinstance(thing, bool):
        yield f"{thing:g}" if isinstance(thing, float) else str(thing)
