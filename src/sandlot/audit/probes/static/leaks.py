"""D11: keys where an agent may read them.

Most tasks contain their answer in some form. A leak is an answer that needs no work: after words such as `answer:` in the prompt,
or at the same place of the data in task after task. Places are weighed by information in bits, so that short common values count
little and repeated ones much. Only a trial can show what an agent sees of the data, so leaks in data are leads.
"""

import base64
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from sandlot.audit.case import Case, Probe
from sandlot.audit.finding import Finding, Layer, Severity, Witness, make_finding
from sandlot.audit.subject import Description
from sandlot.core.groups import group_by_key
from sandlot.core.task import Task

_BITS = 20.0
"""With this much information, chance is one in a million."""
_MOST = 0.8
"""Smallest share of tasks with the value at the same place."""
_LEAVES = 3_000
"""Most values of one task that are read."""
_TOKEN = re.compile(r"\w+(?:[.\-/@:+]\w+)*")
_READY = (
    r"\b(?:answer|solution|expected|golden|gold|ground truth|correct (?:answer|value|result)|answer key)\b\W{0,3}"
    r"(?:is|was|:|=|->|\u2192)\s*[\"'`(*]*"
)
_FIX = "remove the answer from what the agent gets; keep it in `task.key`"


@dataclass(slots=True)
class _LeakPlace:
    """A place where a key occurs, over all tasks."""

    tasks: list[Task] = field(default_factory=list[Task])
    bits: float = 0.0


async def _look(case: Case) -> list[Finding]:
    """No key is in a prompt, at a fixed place of the data, or encoded there."""
    said = case.description
    keys = {task.id: _key_values(task) for task in said.tasks}
    free = _free_keys(keys)
    return [*_in_prompts(said, keys, free), *_in_data(said, keys, free), *_encoded(said, keys, free)]


def _key_values(task: Task) -> dict[str, str]:
    """The values of a task's key as texts, by path."""
    found: dict[str, str] = {}
    for path, value in _leaves(task.key):
        if isinstance(value, str | int | float) and not isinstance(value, bool):
            found[path] = str(value).strip()
    return {path: value for path, value in found.items() if value}


def _leaves(value: Any, path: str = "", limit: int = _LEAVES) -> Iterator[tuple[str, Any]]:
    """Every single value with its path, up to the limit."""
    waiting: list[tuple[str, Any]] = [(path, value)]
    while waiting and limit:
        here, item = waiting.pop()
        if isinstance(item, Mapping):
            waiting += [
                (f"{here}.{name}" if here else str(name), inner) for name, inner in cast("Mapping[Any, Any]", item).items()
            ]
        elif isinstance(item, Sequence) and not isinstance(item, str | bytes):
            waiting += [(f"{here}.{at}", inner) for at, inner in enumerate(cast("Sequence[Any]", item))]
        else:
            limit -= 1
            yield here, item


def _information(value: str) -> float:
    """Bits needed to guess a value: less for words than for numbers."""
    digits = sum(letter.isdigit() for letter in value)
    others = len(set(value)) + min(len(value), 20) / 4 if len(value) > digits else 0
    return min(digits, 20) * math.log2(10) + others


def _free_keys(keys: dict[str, dict[str, str]]) -> set[str]:
    """Paths of keys with many different values: more than half of them differ."""
    values = group_by_key(pair for named in keys.values() for pair in named.items())
    return {path for path, each in values.items() if len(set(each)) * 2 > len(each)}


# -- prompts -----------------------------------------------------------------------------------------------------------


def _in_prompts(said: Description, keys: dict[str, dict[str, str]], free: set[str]) -> Iterator[Finding]:
    """`answer: 42` in a prompt, where the key is 42."""
    places: dict[str, _LeakPlace] = {}
    for task in said.tasks:
        ready = [match.end() for match in re.finditer(_READY, task.prompt, re.IGNORECASE)]
        for path, value in keys[task.id].items() if ready else ():
            if path in free and any(_is_at(task.prompt, at, value) for at in ready):
                place = places.setdefault(path, _LeakPlace())
                place.tasks.append(task)
                place.bits += _information(value)
    for path, place in places.items():
        if place.bits < _BITS:
            continue
        task = min(place.tasks, key=lambda task: (len(task.prompt), task.id))
        value = keys[task.id][path]
        witness = Witness(
            inputs={"prompt": task.prompt[:600], "key": {path: value}, "compared": "the prompt with the key, verbatim"},
            expected="a prompt without the answer",
            observed=f"`{value[:60]}` follows words such as `answer:`",
        )
        title = f"{len(place.tasks)} of {len(said.tasks)} prompts contain the answer: `{value[:60]}`, the key's `{path}`"
        yield make_finding("D11.prompt", title, witness, task=task.id, count=len(place.tasks), fix=_FIX)


def _is_at(text: str, at: int, value: str) -> bool:
    """True if the whole value is at this position."""
    there = text[at : at + len(value)].casefold() == value.casefold()
    after = text[at + len(value) : at + len(value) + 1]
    return there and not after.isalnum()


# -- data --------------------------------------------------------------------------------------------------------------


def _in_data(said: Description, keys: dict[str, dict[str, str]], free: set[str]) -> Iterator[Finding]:
    """A key at the same place of the data in most tasks, and not in the prompt."""
    places: dict[tuple[str, str], _LeakPlace] = {}
    for task in said.tasks:
        wanted: dict[str, list[str]] = {}
        for path, value in keys[task.id].items():
            if path in free and value.casefold() not in task.prompt.casefold():
                wanted.setdefault(value, []).append(path)
        for place, value, alike in _places_in_data(task, wanted) if wanted else ():
            for path in wanted[value]:
                seen = places.setdefault((path, place), _LeakPlace())
                seen.tasks.append(task)
                seen.bits += max(0.0, _information(value) - math.log2(max(1, alike)))
    ready: dict[str, tuple[str, _LeakPlace]] = {}
    for (path, where), place in places.items():
        if place.bits >= _BITS and len(place.tasks) >= max(2, _MOST * len(said.tasks)) and path not in ready:
            ready[path] = (where, place)
    if ready:
        yield _data_finding(said, keys, ready)


def _data_finding(said: Description, keys: dict[str, dict[str, str]], ready: dict[str, tuple[str, _LeakPlace]]) -> Finding:
    """One finding for all such keys; the one with most information is the witness."""
    path, (where, place) = max(ready.items(), key=lambda item: (item[1][1].bits, item[0]))
    task = place.tasks[0]
    more = f", and {len(ready) - 1} more values of the key" if len(ready) > 1 else ""
    places = {key: at for key, (at, _) in ready.items()}
    witness = Witness(
        inputs={"task": task.id, "key": {path: keys[task.id][path][:200]}, "places": places},
        expected="an answer that needs work",
        observed=f"the same value at `data.{where}` in {len(place.tasks)} of {len(said.tasks)} tasks",
    )
    title = f"the key's `{path}` is stored in the data of {len(place.tasks)} tasks, at `{where}`{more}"
    fix = "remove it from the data, or make sure that no tool and no file shows it"
    count = len(place.tasks)
    return make_finding("D11.data", title, witness, severity=Severity.LOW, sure=False, task=task.id, count=count, fix=fix)


def _places_in_data(task: Task, wanted: Mapping[str, Sequence[str]]) -> Iterator[tuple[str, str, int]]:
    """Places of the data with one of the values, whole or as a word of a text, and the number of words there."""
    for path, item in _leaves(task.data):
        if isinstance(item, bool) or not isinstance(item, str | int | float):
            continue
        text = str(item).strip()
        if text in wanted:
            yield path, text, 1
        elif isinstance(item, str) and len(text) < 100_000:
            words = _TOKEN.findall(text)
            for word in set(words) & wanted.keys():
                yield path, word, len(words)


# -- encoded -----------------------------------------------------------------------------------------------------------


def _encoded(said: Description, keys: dict[str, dict[str, str]], free: set[str]) -> Iterator[Finding]:
    """The key as base64 or hex, which does not happen by accident."""
    hits: list[tuple[Task, str, str]] = []
    for task in said.tasks:
        text = f"{said.system}\n{task.prompt}\n" + "\n".join(item for _, item in _leaves(task.data) if isinstance(item, str))
        low = text.casefold()
        for path, value in keys[task.id].items():
            if path not in free or not 6 <= len(value) <= 500:
                continue
            raw = value.encode()
            coded = base64.b64encode(raw).decode().rstrip("=")[:-1]  # the last character depends on what follows
            if coded in text or raw.hex() in low:
                hits.append((task, path, "base64" if coded in text else "hex"))
    if hits:
        task, path, way = hits[0]
        num = len({each.id for each, _, _ in hits})
        witness = Witness(
            inputs={"task": task.id, "key": {path: keys[task.id][path][:200]}, "encoding": way},
            expected="a task that does not contain its key, encoded or not",
            observed=f"found in {way} in system prompt, prompt or data",
        )
        title = f"the key's `{path}` is in the prompt or data of {num} tasks, encoded as {way}"
        yield make_finding("D11.encoded", title, witness, sure=False, task=task.id, count=len(hits), fix=_FIX)


PROBE = Probe(
    "leaked-keys",
    Layer.STATIC,
    ("D11",),
    _look,
    lambda case: None if any(task.key for task in case.description.tasks) else "tasks have no key",
)
