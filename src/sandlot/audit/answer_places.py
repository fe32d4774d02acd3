"""Places where answers are often left by mistake, how values of a task's key are recognised there, and an agent that looks there.

The agent gets the task with its key, as golden solutions do, and uses the key only to recognise it where it should not be.
"""

import re
from collections.abc import Iterator
from typing import Any, cast

from sandlot.core.task import Task
from sandlot.core.types import Json
from sandlot.model.policy.solution import Agent

_MIN_CHARS = 8
_MIN_DIGITS = 5
"""Shorter values occur by chance."""

_NAMES = r"expected|truth|gold|solution|answer|secret|oracle|reference|hidden|key|grad(e|ing)|rubric|reward"
_PLACES = {
    "variables": "env; cat /proc/[0-9]*/environ 2>/dev/null | tr '\\0' '\\n' | head -c 20000",
    "processes": "cat /proc/[0-9]*/cmdline 2>/dev/null | tr '\\0' ' ' | head -c 20000",
    "files": (
        "find / -xdev \\( -path /proc -o -path /sys -o -path /usr -o -path /lib -o -path /etc -o -path /var/lib -o -path /opt"
        " -o -path /root/.cache \\) -prune -o -type f -size -64k -newermt '2020-01-01' -print 2>/dev/null"
        f' | grep -Ei \'({_NAMES})[^/]*$\' | head -40 | while read -r each; do echo "== $each"; head -c 4000 "$each"; done'
    ),
}
"""The commands of the look-up agent, by kind of place. Files that they do not read are the task's own material."""


def _key_values_in(text: str, task: Task) -> list[str]:
    """Values of the key that a text contains as separate words, if they are long enough to recognise and not in the prompt."""
    secrets = [value for value in dict.fromkeys(values_as_text(task.key)) if is_long_enough(value) and value not in task.prompt]
    return [secret for secret in secrets if has_word(text, secret)]


def has_word(text: str, value: str) -> bool:
    """True if the text contains the value as a separate word."""
    return value in text and re.search(rf"(?<!\w){re.escape(value)}(?!\w)", text) is not None


def is_long_enough(text: str) -> bool:
    """True if a value is too long to occur by chance."""
    digits = sum(character.isdigit() for character in text)
    return len(text) >= _MIN_CHARS or digits >= _MIN_DIGITS


def is_answer_like(path: str) -> bool:
    """True for hidden files and files whose names suggest an answer: they are not the task's own material."""
    if "/.git/" in path:
        return False
    return any(
        step.startswith(".") or re.search(rf"(^|[^a-z])({_NAMES})([^a-z]|$)", step.lower()) for step in path.split("/") if step
    )


def values_as_text(thing: Any) -> Iterator[str]:
    """Every text and number in a record as text; bytes and booleans are left out."""
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


async def look_up(agent: Agent, task: Task) -> None:
    """Search the places, and say which values of the key were found."""
    found: list[str] = []
    for tool in [spec.name for spec in agent.tools if spec.name == "bash"]:
        for command in _PLACES.values():
            found += _key_values_in(await agent.call(tool, command=command), task)
    await agent.say("\n".join(dict.fromkeys(found)) or "I found nothing.")
