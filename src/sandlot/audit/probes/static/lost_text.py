"""Text of a task's own row that its prompt should show and does not: lost, cut off, empty, or a placeholder that was not filled.

Which fields belong into the prompt is learned from the tasks: a field whose text is in nearly every prompt is missing where it is
not. Without this, a preprocessing mistake leaves tasks that nobody can solve, and the grader still has a golden answer.
"""

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, cast

from sandlot.audit.case import Case, Probe
from sandlot.audit.finding import Finding, Layer, Severity, Witness, make_finding
from sandlot.audit.statement import core_of
from sandlot.core.task import Task
from sandlot.core.types import Json

_USUAL = 0.8
_LEAST = 5
_LONG = 12
_MOST_TASKS = 2000
_ASKS = re.compile(
    r"(?i)(?:^|[._])(?:question|problem|query|stem|instruction|statement|options?|choices?|sentence|premise|hypothesis)s?\b"
)
_HOLE = re.compile(r"\{\{?\s*(\w+)\s*\}?\}|<<(\w+)>>|\$\{(\w+)\}")
_NOTHING = re.compile(r"(?i)\s*(?:none|nan|null|undefined|\[\]|\{\}|n/a)?\s*")
_LABEL = re.compile(r"(?m)^(?P<label>[A-Z][\w ]{1,30}):[ \t]*(?P<text>.*)$")


@dataclass(frozen=True, slots=True)
class _Lost:
    """One text that a prompt lacks."""

    task: Task
    field: str
    text: str


async def _look(case: Case) -> list[Finding]:
    """Prompts show what the rows they were made from ask."""
    tasks = [task for task in case.description.tasks[:_MOST_TASKS] if task.prompt.strip()]
    if case.description.tools or case.description.image is not None:
        tasks = []  # there the agent may read the data by other means
    empty = [task for task in case.description.tasks if not task.prompt.strip()]
    found = [_no_prompt(empty)] if empty and tasks else []
    found += [finding for each in (_lost_fields(tasks), _holes(tasks), _empty_labels(tasks), _twins(tasks)) for finding in each]
    return found


# -- fields ------------------------------------------------------------------------------------------------------------


def _lost_fields(tasks: Sequence[Task]) -> Iterator[Finding]:
    """Fields that nearly all prompts show, where one does not."""
    shown: dict[str, int] = defaultdict(int)
    absent: dict[str, list[_Lost]] = defaultdict(list)
    chars: dict[str, int] = defaultdict(int)
    for task in tasks:
        prompt = _plain(task.prompt)
        for field, text in texts_of(task.data):
            plain = _plain(text)
            if len(plain) < 2:
                continue
            chars[field] += len(plain)
            if plain in prompt:
                shown[field] += 1
            else:
                absent[field].append(_Lost(task, field, text))
    for field, lost in absent.items():
        num = shown[field] + len(lost)
        asks = _ASKS.search(field) is not None
        if num < _LEAST or shown[field] < _USUAL * num or (not asks and chars[field] < _LONG * num):
            continue
        yield _field_finding(field, lost, num, sure=asks)


def _field_finding(field: str, lost: Sequence[_Lost], num: int, *, sure: bool) -> Finding:
    first = min(lost, key=lambda each: (len(each.text), each.task.id))
    inputs = {"task": first.task.id, "field": field, "text": first.text[:1000], "prompt": first.task.prompt[-1500:]}
    return make_finding(
        "D15.lost",
        f"the prompt lacks text of `{field}` that {num - len(lost)} of {num} prompts show",
        Witness(inputs=inputs, expected="the text is in the prompt", observed=f"the prompt shows {_share(first)} of it"),
        severity=Severity.HIGH,
        sure=sure,
        task=first.task.id,
        count=len({each.task.id for each in lost}),
        fix="make the prompt from the whole field, and test that each prompt contains it",
    )


def _share(lost: _Lost) -> str:
    words = _plain(lost.text).split()
    prompt = set(_plain(lost.task.prompt).split())
    return f"{sum(word in prompt for word in words)} of {len(words)} words"


# -- slots -------------------------------------------------------------------------------------------------------------


def _holes(tasks: Sequence[Task]) -> Iterator[Finding]:
    """Placeholders with the name of a field."""
    open_holes = [
        (task, name)
        for task in tasks
        for found in _HOLE.finditer(task.prompt)
        if (name := next(filter(None, found.groups())))
        in {*task.data, "question", "prompt", "problem", "context", "choices", "options"}
    ]
    if open_holes:
        task, name = open_holes[0]
        yield make_finding(
            "D15.placeholder",
            f"the prompt has a placeholder for `{name}` that was not filled",
            Witness(
                inputs={"task": task.id, "prompt": task.prompt[:1500]}, expected=f"the text of `{name}`", observed=f"`{name}`"
            ),
            severity=Severity.HIGH,
            sure=name in task.data,
            task=task.id,
            count=len({each.id for each, _ in open_holes}),
        )


def _empty_labels(tasks: Sequence[Task]) -> Iterator[Finding]:
    """Labels such as `Question:` with nothing behind them, where other prompts have text."""
    filled: dict[str, int] = defaultdict(int)
    empty: dict[str, list[Task]] = defaultdict(list)
    for task in tasks:
        for label, text in _labelled(task.prompt):
            if _NOTHING.fullmatch(text):
                empty[label].append(task)
            else:
                filled[label] += 1
    for label, without in empty.items():
        num = filled[label] + len(without)
        last = all(task.prompt.rstrip().endswith(f"{label}:") for task in without)
        if num >= _LEAST and filled[label] >= _USUAL * num and not last:
            task = without[0]
            yield make_finding(
                "D15.empty",
                f"the prompt has nothing after `{label}:`, where {filled[label]} of {num} prompts have text",
                Witness(
                    inputs={"task": task.id, "prompt": task.prompt[:1500]}, expected=f"text after `{label}:`", observed="none"
                ),
                severity=Severity.HIGH,
                task=task.id,
                count=len(without),
            )


def _labelled(prompt: str) -> Iterator[tuple[str, str]]:
    """Each label with the text up to the next one."""
    found = list(_LABEL.finditer(prompt))
    for place, each in enumerate(found):
        end = found[place + 1].start() if place + 1 < len(found) else len(prompt)
        yield each["label"], each["text"] + prompt[each.end() : end]


# -- prompts -----------------------------------------------------------------------------------------------------------


def _no_prompt(empty: Sequence[Task]) -> Finding:
    witness = Witness(inputs={"task": empty[0].id}, expected="a prompt", observed="an empty text")
    return make_finding("D15.prompt", "a task has an empty prompt", witness, task=empty[0].id, count=len(empty))


def _twins(tasks: Sequence[Task]) -> Iterator[Finding]:
    """The same prompt with different answers, of which one must be wrong."""
    by_prompt: dict[str, list[Task]] = defaultdict(list)
    for task in tasks:
        if isinstance(task.key.get("golden"), str | int | float):
            by_prompt[" ".join(task.prompt.split())].append(task)
    apart = [each for each in by_prompt.values() if len({_plain(core_of(str(task.key["golden"]))) for task in each}) > 1]
    if apart:
        one, other = _unlike(apart[0])
        answers = [str(each.key["golden"]) for each in (one, other)]
        short = all(len(core_of(answer).split()) <= 2 for answer in answers)
        inputs = {"task": one.id, "other": other.id, "prompt": one.prompt[:1500], "answers": [answer[:200] for answer in answers]}
        yield make_finding(
            "D15.twins",
            "two tasks have the same prompt and different answers, so that nobody can solve both",
            Witness(inputs=inputs, expected="what tells the tasks apart is in the prompt", observed="the prompts are equal"),
            sure=short and len(apart) * 2 <= len(by_prompt),
            task=one.id,
            count=sum(len(each) for each in apart),
        )


def _unlike(tasks: Sequence[Task]) -> tuple[Task, Task]:
    first = tasks[0]
    said = _plain(core_of(str(first.key["golden"])))
    return first, next(task for task in tasks if _plain(core_of(str(task.key["golden"]))) != said)


def texts_of(thing: Any, where: str = "") -> Iterator[tuple[str, str]]:
    """Every text of a record with its path; places in lists are `*`."""
    if isinstance(thing, dict):
        for name, value in cast("Json", thing).items():
            yield from texts_of(value, f"{where}.{name}" if where else str(name))
    elif isinstance(thing, list | tuple):
        for value in cast("Sequence[Any]", thing):
            yield from texts_of(value, f"{where}.*")
    elif isinstance(thing, str):
        yield where, thing


def _plain(text: str) -> str:
    """Letters and digits alone: markup and line breaks may differ."""
    return " ".join(re.findall(r"\w+", text.casefold().replace("_", " ")))


PROBE = Probe("lost-text", Layer.STATIC, ("D15",), _look)
