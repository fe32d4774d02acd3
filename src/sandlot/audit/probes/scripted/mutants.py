"""Mutants: the golden solution with one mistake, which the grader should notice.

A missing step, a number off by one or with the wrong sign, two values swapped, a value of another task, a step done twice.
Free text is not changed, only values that occur in the task's key or data.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from random import Random
from typing import Any, cast

from sandlot.audit.answer_places import values_as_text
from sandlot.audit.probes.likeness import mentions, opening
from sandlot.audit.probes.scripted.reach import GoldenWork
from sandlot.audit.subject import Act, Call, Say, Script
from sandlot.core.types import Json

_A_TASK = 14
_SHORT = 30
"""Longer texts are free text."""
_NUMBER = re.compile(r"(?<![\w./-])\d+(?![\w./-])")


@dataclass(frozen=True, slots=True)
class Mutant:
    """A script with one mistake."""

    what: str
    script: Script
    asked: tuple[str, str] | None = None
    """The tool and the changed argument, if the prompt gives its right value."""


def mutants(work: GoldenWork, others: Sequence[GoldenWork], seed: int) -> list[Mutant]:
    """Up to 14 mutants of a task's golden solution, spread over all kinds."""
    rng = Random(f"{seed} {work.task.id}")  # noqa: S311 - seeded, not secret
    kinds = [list(kind) for kind in (_deleted(work), _changed(work, others), _repeated(work), _swapped(work))]
    for kind in kinds:
        rng.shuffle(kind)
    picked: list[Mutant] = []
    while len(picked) < _A_TASK and any(kinds):
        picked += [kind.pop() for kind in kinds if kind]
    return picked[:_A_TASK]


def _deleted(work: GoldenWork) -> Iterator[Mutant]:
    """Without one call, and without all calls of one tool."""
    turns = work.script.turns
    for at, turn in enumerate(turns):
        if isinstance(turn[0], Call):
            yield _mutant(f"without step {at + 1}, `{turn[0].tool}`", (*turns[:at], *turns[at + 1 :]))
    tools = {call.tool for call in work.calls}
    for tool in sorted(tools) if len(tools) > 1 else ():
        kept = tuple(tuple(act for act in turn if not (isinstance(act, Call) and act.tool == tool)) for turn in turns)
        yield _mutant(f"without any call of `{tool}`", tuple(turn for turn in kept if turn))


def _repeated(work: GoldenWork) -> Iterator[Mutant]:
    turns = work.script.turns
    for at, turn in enumerate(turns):
        if isinstance(turn[0], Call):
            yield _mutant(f"step {at + 1}, `{turn[0].tool}`, twice", (*turns[: at + 1], turn, *turns[at + 1 :]))


def _swapped(work: GoldenWork) -> Iterator[Mutant]:
    """One argument swapped between two calls of the same tool."""
    calls = [(at, turn[0]) for at, turn in enumerate(work.script.turns) if isinstance(turn[0], Call)]
    for (first, one), (second, other) in pairwise(calls):
        same = [name for name in one.arguments if name in other.arguments and one.arguments[name] != other.arguments[name]]
        if one.tool != other.tool or not same:
            continue
        turns = list(work.script.turns)
        turns[first] = (Call(one.tool, {**one.arguments, same[-1]: other.arguments[same[-1]]}), *turns[first][1:])
        turns[second] = (Call(other.tool, {**other.arguments, same[-1]: one.arguments[same[-1]]}), *turns[second][1:])
        yield _mutant(f"`{same[-1]}` of steps {first + 1} and {second + 1} swapped", tuple(turns))


def _changed(work: GoldenWork, others: Sequence[GoldenWork]) -> Iterator[Mutant]:
    """One value of one act is wrong."""
    named = {*values_as_text(work.task.key), *values_as_text(work.task.data)}
    elsewhere = [text for other in others if other.task.id != work.task.id for text in values_as_text(other.task.key)]
    for at, turn in enumerate(work.script.turns):
        for place, act in enumerate(turn):
            for what, changed in _wrong(act, named, elsewhere):
                acts = (*turn[:place], changed, *turn[place + 1 :])
                turns = (*work.script.turns[:at], acts, *work.script.turns[at + 1 :])
                yield Mutant(f"step {at + 1}: {what}", Script(name="mutant", turns=turns), _asked_argument(work, act, changed))


def _asked_argument(work: GoldenWork, act: Act, changed: Act) -> tuple[str, str] | None:
    """The argument that differs, if its right value is short and in the prompt."""
    if not isinstance(act, Call) or not isinstance(changed, Call):
        return None
    name = next((name for name, value in act.arguments.items() if changed.arguments.get(name) != value), None)
    if name is None:
        return None
    value = str(act.arguments[name]).strip()
    prompt = "\n".join(text for _, text in opening(work.idle))
    said = 1 < len(value) <= _SHORT and mentions(prompt, value)
    return (act.tool, name) if said else None


def _wrong(act: Act, named: set[str], elsewhere: Sequence[str]) -> Iterator[tuple[str, Act]]:
    if isinstance(act, Say):
        if act.text.strip() in named:
            yield from ((what, Say(str(value))) for what, value in _values(act.text, named, elsewhere))
        return
    for name, value in act.arguments.items():
        for what, wrong in _values(value, named, elsewhere):
            yield f"`{name}` {what}", Call(act.tool, {**act.arguments, name: wrong})


def _values(value: Any, named: set[str], elsewhere: Sequence[str]) -> Iterator[tuple[str, Any]]:
    """Wrong values in place of a right one."""
    if isinstance(value, bool) or value is None:
        return
    if isinstance(value, int | float):
        yield "plus one", value + 1
        if value:
            yield "with the wrong sign", -value
    elif isinstance(value, str):
        yield from _texts(value, named, elsewhere)
    elif isinstance(value, dict):
        fields = cast("Json", value)
        for name in list(fields)[:1]:
            yield "without its first field", {each: fields[each] for each in fields if each != name}
    elif isinstance(value, list) and value:
        yield "without its last element", cast("list[Any]", value)[:-1]


def _texts(text: str, named: set[str], elsewhere: Sequence[str]) -> Iterator[tuple[str, str]]:
    if text.strip() in named:
        stripped = text.strip()
        if len(stripped) > 3:
            yield "cut short", stripped[: len(stripped) // 2]
        other = next((each for each in elsewhere if each != stripped and _alike(each, stripped)), None)
        if other is not None:
            yield "from another task", other
    numbers = list(_NUMBER.finditer(text))
    if numbers and (text.strip() in named or "\n" in text or " " in text):
        last = numbers[-1]
        yield "with a number in it plus one", f"{text[: last.start()]}{int(last.group()) + 1}{text[last.end() :]}"


def _alike(one: str, other: str) -> bool:
    """True for two numbers, or two texts, of similar length."""
    return one.isdigit() == other.isdigit() and 2 * len(one) > len(other) and len(one) < 2 * len(other)


def _mutant(what: str, turns: tuple[tuple[Act, ...], ...]) -> Mutant:
    return Mutant(what, Script(name="mutant", turns=turns))
