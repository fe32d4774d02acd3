"""What a play left in the world, as facts, and which of them the task asks for.

A fact is a place and the value there. Rows are not numbered in it, so that work in another order leaves the same facts. A fact is
asked for if the task's key or its prompt states the value: only then is a play that lacks it, or has another one, wrong.
"""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from sandlot.audit.answer_places import values_as_text
from sandlot.audit.attacked import Turns
from sandlot.audit.case import Case, script_of
from sandlot.audit.probes.likeness import MISSING, changes_between, mentions, opening_text
from sandlot.audit.probes.scripted.graded import find_graded_changes
from sandlot.audit.probes.scripted.reach import GoldenWork, find_works_to_do
from sandlot.audit.reason import Reason, ReasonKind
from sandlot.audit.statement import shorten
from sandlot.audit.subject import Call, Say, Trial

_SHORT = 80
"""Longer texts are not one value."""
_DETAIL = re.compile(r"(?<![\w.])[A-Za-z]{0,6}[-#]?\d[\w.,:/-]*\w(?!\w)")
"""A number or identifier of several characters within a text."""

Fact = tuple[str, str]
"""A place without row numbers, and the text of the value there."""


def place_of(where: str) -> str:
    """A place without the numbers of rows: `state.orders.*.units`."""
    return ".".join("*" if step.isdigit() else step for step in where.split("."))


def values_given(turns: Turns) -> frozenset[str]:
    """The values that a play gives to tools, without case."""
    calls = [act for turn in turns for act in turn if isinstance(act, Call)]
    return frozenset(value.casefold() for call in calls for value in values_as_text(call.arguments))


def facts_of(changes: Mapping[str, Any]) -> Counter[Fact]:
    """The facts of a play's changes; what it removed is none."""
    return Counter(
        (place_of(where), _text(value)) for where, value in changes.items() if value not in (MISSING, None, "", [], {})
    )


@dataclass(frozen=True, eq=False)
class AskedWork:
    """A task's golden work, and what of it the task asks for."""

    work: GoldenWork
    graded: frozenset[str] | None = None
    """Places of golden's changes that cost points when they are put back; None if that is not known."""

    @cached_property
    def changes(self) -> dict[str, Any]:
        """What golden changed, without the moments at which it did."""
        return changes_between(self.work.idle, self.work.golden, timeless=True)

    @cached_property
    def facts(self) -> Counter[Fact]:
        """Golden's facts."""
        return facts_of(self.changes)

    @cached_property
    def prompt(self) -> str:
        """What the agent is asked, without case."""
        return opening_text(self.work.idle).casefold()

    @cached_property
    def key(self) -> frozenset[str]:
        """The values of the task's key."""
        return frozenset(text.casefold() for text in values_as_text(self.work.task.key))

    @cached_property
    def given(self) -> frozenset[str]:
        """The values that golden gave to tools."""
        return values_given(self.work.script.turns)

    @cached_property
    def asked(self) -> dict[Fact, str]:
        """The facts that the task asks for, each with who states it: the key, or the prompt."""
        found = {fact: source for fact in self.facts if (source := self.source_of(fact[1])) is not None}
        return dict(sorted(found.items(), key=lambda item: (item[1] != "the key", item[0])))

    def source_of(self, value: str) -> str | None:
        """Who states a value; None if nobody does, or if it is too short to tell."""
        text = value.strip().casefold()
        if not text or len(text) > _SHORT or (len(text) < 2 and text not in self.given) or text in {"true", "false"}:
            return None
        if text in self.key:
            return "the key"
        return "the prompt" if mentions(self.prompt, text) else None

    def changes_of(self, trial: Trial) -> dict[str, Any]:
        """What a play changed."""
        return changes_between(self.work.idle, trial, timeless=True)

    def missing(self, trial: Trial, *, anywhere: bool = False) -> Reason | None:
        """Why a play's work is not what the task asks for: a fact that is asked for lacks, or has another value.

        In a place that no grade depends on, a value counts only if the play neither gave it to a tool nor said it: else it may be
        a note of what was looked up. With `anywhere`, for plays that were not made from golden's, the value may be in no other
        place either.
        """
        left = facts_of(self.changes_of(trial))
        turns = script_of(trial, "played").turns
        given, said = values_given(turns), " ".join(act.text for turn in turns for act in turn if isinstance(act, Say)).casefold()
        for (place, value), source in self.asked.items():
            if left[place, value] >= self.facts[place, value]:
                continue
            noted = value.casefold() in given or mentions(said, value.casefold())
            if noted and self.graded is not None and place not in self.graded:
                continue
            if anywhere and any(mentions(text.casefold(), value.casefold()) for _, text in left):
                continue
            instead = next((text for there, text in left if there == place and (there, text) not in self.facts), None)
            if instead is None and (left[place, value] or self._stated_elsewhere(left, place, value)):
                continue
            return _reason(place, value, source, instead)
        return None if anywhere else self._missing_detail(left)

    def _stated_elsewhere(self, left: Counter[Fact], place: str, value: str) -> bool:
        """True if the play left the value under the same name in another place: in another row, or under another key."""
        name = place.rpartition(".")[2]
        return any(text == value and there != place and there.rpartition(".")[2] == name for there, text in left)

    def _missing_detail(self, left: Counter[Fact]) -> Reason | None:
        """A number or identifier of the key that golden's text holds, and the play's text in the same place does not."""
        for place, text in self.facts:
            if len(text) <= _SHORT:
                continue
            others = [other for there, other in left if there == place]
            for detail in dict.fromkeys(_DETAIL.findall(text)):
                said = detail.casefold()
                if len(said) > 2 and said in self.key and not any(mentions(other.casefold(), said) for other in others):
                    return _reason(place, detail, "the key", shorten(others[0]) if others else None)
        return None


def _reason(place: str, value: str, source: str, instead: str | None) -> Reason:
    said = f"{source} states `{shorten(value)}`, golden leaves it at `{place}`"
    if instead is None:
        return Reason(kind=ReasonKind.LEAVES_OUT, why=f"{said}, and here it is not there")
    return Reason(kind=ReasonKind.CONTRADICTS, why=f"{said}, and here `{shorten(instead)}` is there")


def overdone(asked: AskedWork, trial: Trial) -> Reason | None:
    """Why too much was done: a number that golden moved by what the task states was moved further the same way."""
    left, before = asked.changes_of(trial), asked.work.before
    for where, value in asked.changes.items():
        start, now = before.get(where, 0), left.get(where)
        if place_of(where) != where:
            continue  # rows move when others come before them
        if not all(isinstance(each, int | float) and not isinstance(each, bool) for each in (start, value, now)):
            continue
        moved, further = float(value) - float(start), float(now or 0) - float(value)
        source = asked.source_of(_text(abs(moved)))
        if source is not None and further * moved > 0:
            said = f"{source} states `{_text(abs(moved))}`, by which golden moves `{place_of(where)}`"
            why = f"{said}, and here it is moved by {_text(abs(moved + further))}"
            return Reason(kind=ReasonKind.CONTRADICTS, why=why)
    return None


def foreign(asked: AskedWork, trial: Trial, others: Sequence[AskedWork]) -> Reason | None:
    """Why a play that does other tasks' work too is wrong: it leaves what they ask for, and this task does not."""
    left = facts_of(asked.changes_of(trial))
    for other in others:
        theirs = [fact for fact in other.asked if other.graded is None or fact[0] in other.graded]
        strange = [fact for fact in theirs if fact in left and fact not in asked.facts and asked.source_of(fact[1]) is None]
        if strange:
            place, value = strange[0]
            why = f"it also leaves `{shorten(value)}` at `{place}`, which golden does for task `{other.work.task.id}` alone"
            return Reason(kind=ReasonKind.CONTRADICTS, why=why)
    return None


async def find_asked(case: Case, most: int, sandboxed: int) -> list[AskedWork]:
    """Golden's work on up to `most` tasks, with what each task asks for and what its grade depends on."""
    works = [work for work in await find_works_to_do(case, most, sandboxed) if work.calls]
    graded = await find_graded_changes(case, works)
    return [AskedWork(work, frozenset(map(place_of, graded[work.task.id]))) for work in works]


def _text(value: Any) -> str:
    return f"{value:.10g}" if isinstance(value, float) else str(value)
