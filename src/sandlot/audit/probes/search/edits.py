"""Edits of a golden play: acts left out, with other values, repeated, or with the acts of other tasks added.

Each edit changes one act, so that several can be made at once: the search adds up those that cost nothing.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any, cast

from sandlot.audit.probes.grader.asking import NONSENSE
from sandlot.audit.probes.scripted.reach import GoldenWork, properties_of
from sandlot.audit.subject import Act, Call, Say, Script
from sandlot.core.ports.world import ToolSpec
from sandlot.core.types import Json

_MANY = 12
"""How often a call is repeated in bulk."""
_SHORT = 80
"""Longer arguments are no single value."""
_LONG = 400
"""Longer arguments are documents; they are emptied, cut and replaced, not varied."""

Place = tuple[int, int]
"""A turn, and an act in it."""


@dataclass(frozen=True, slots=True)
class PlayEdit:
    """One act of a golden play, changed."""

    kind: str
    """`left out`, `repeated`, `ten times as much`: what findings are grouped by."""
    place: Place
    acts: tuple[Act, ...]
    """What stands in its place."""
    subject: str
    """The tool, or `message`; with an argument, `tool.argument`."""

    @property
    def what(self) -> str:
        """The edit in a few words."""
        return f"`{self.subject}` of turn {self.place[0] + 1} {self.kind}"


def edited(script: Script, edits: Sequence[PlayEdit], name: str = "searched") -> Script:
    """The script with all these edits, at most one for each act."""
    by_place = {edit.place: edit for edit in edits}
    turns: list[tuple[Act, ...]] = []
    for at, turn in enumerate(script.turns):
        acts: list[Act] = []
        for number, act in enumerate(turn):
            edit = by_place.get((at, number))
            acts += [act] if edit is None else edit.acts
        says = [act for act in acts if isinstance(act, Say)]
        if len(acts) > 1 and says:  # a turn is one message, or calls
            turns += [(act,) for act in acts]
        elif acts:
            turns.append(tuple(acts))
    return Script(name=name, turns=tuple(turns))


def edits_of(
    work: GoldenWork, others: Sequence[GoldenWork], tools: Sequence[ToolSpec], seed: int, *, shells: frozenset[str] = frozenset()
) -> list[PlayEdit]:
    """Every edit of a play, one of each kind before a second of any."""
    rng = Random(f"{seed} {work.task.id} edits")  # noqa: S311 - seeded, not secret
    kinds: dict[tuple[str, str], list[PlayEdit]] = {}
    for edit in _all(work, others, {tool.name: tool for tool in tools}, shells):
        kinds.setdefault((edit.kind, edit.subject), []).append(edit)
    for each in kinds.values():
        rng.shuffle(each)
    rows = sorted(kinds.items(), key=lambda item: (_RANK.get(item[0][0], len(_RANK)), item[0]))
    deepest = max((len(each) for _, each in rows), default=0)
    return [each[depth] for depth in range(deepest) for _, each in rows if depth < len(each)]


_FIRST = ("left out", "from another task", "followed by those of other tasks", "ten times as much", "repeated", "emptied")
_RANK = {kind: place for place, kind in enumerate(_FIRST)}
"""Kinds that are tried first."""


def _all(
    work: GoldenWork, others: Sequence[GoldenWork], tools: Mapping[str, ToolSpec], shells: frozenset[str]
) -> Iterator[PlayEdit]:
    for at, turn in enumerate(work.script.turns):
        for number, act in enumerate(turn):
            place = (at, number)
            if isinstance(act, Say):
                yield from _of_message(work, others, place, act)
                continue
            yield PlayEdit("left out", place, (), act.tool)
            yield PlayEdit("repeated", place, (act,) * _MANY, act.tool)
            if act.tool not in shells:
                yield from _of_call(act, place, others, tools.get(act.tool))


def _of_message(work: GoldenWork, others: Sequence[GoldenWork], place: Place, act: Say) -> Iterator[PlayEdit]:
    yield PlayEdit("emptied", place, (Say(NONSENSE),), "message")
    said = [turn[0].text for other in others for turn in other.script.turns[-1:] if turn and isinstance(turn[0], Say)]
    other = next((text for text in said if text != act.text), None)
    if other is not None and place[0] == len(work.script.turns) - 1:
        yield PlayEdit("from another task", place, (Say(other),), "message")


def _of_call(act: Call, place: Place, others: Sequence[GoldenWork], spec: ToolSpec | None) -> Iterator[PlayEdit]:
    theirs = [call for other in others for call in other.calls if call.tool == act.tool]
    schemas: Mapping[str, Json] = properties_of(spec) if spec is not None else {}
    for name, value in act.arguments.items():
        known = [call.arguments[name] for call in theirs if name in call.arguments]
        for kind, wrong in _values(value, known, schemas.get(name, {})):
            yield PlayEdit(kind, place, (Call(act.tool, {**act.arguments, name: wrong}),), f"{act.tool}.{name}")
    foreign = [call for call in theirs if call != act]
    unlike = list({repr(call.arguments): call for call in foreign}.values())[: 4 * _MANY]
    if unlike:
        yield PlayEdit("together with those of other tasks", place, (*unlike, act), act.tool)
        yield PlayEdit("followed by those of other tasks", place, (act, *unlike), act.tool)


def _values(value: Any, known: Sequence[Any], schema: Json) -> Iterator[tuple[str, Any]]:
    """Wrong values in place of a right one, each with its kind."""
    kind = cast("object", value).__class__
    if isinstance(value, bool):
        yield "reversed", not value
    elif isinstance(value, int | float):
        yield from (("ten times as much", value * 10), ("with the other sign", -value), ("as zero", 0 * value))
        if abs(value) < 20:
            yield "one more", value + 1
    elif isinstance(value, str):
        yield from _texts(value, known, schema)
    elif isinstance(value, list):
        parts = cast("list[Any]", value)
        yield from (("emptied", []), ("cut to its first half", parts[: (len(parts) + 1) // 2]))
    elif isinstance(value, dict):
        yield "emptied", {}
    other = next((each for each in known if each != value and type(each) is kind), None)
    if other is not None:
        yield "from another task", other
    for option in [each for each in schema.get("enum") or () if each != value][:2]:
        yield "another option", option


def _texts(value: str, known: Sequence[Any], schema: Json) -> Iterator[tuple[str, str]]:
    """Wrong texts in place of a right one."""
    yield "emptied", ""
    if len(value) <= _LONG and not schema.get("enum"):
        yield "replaced by nonsense", NONSENSE
    if len(value) > 3:
        yield "cut to its first half", value[: len(value) // 2]
    every = list(dict.fromkeys(each for each in known if isinstance(each, str) and each != value))[:_MANY]
    if every and len(value) <= _SHORT:
        yield "beside those of other tasks", ", ".join([*every, value])


def together(edits: Sequence[PlayEdit]) -> list[PlayEdit]:
    """The edits that can be made at once: the first of each act."""
    chosen: dict[Place, PlayEdit] = {}
    for edit in edits:
        chosen.setdefault(edit.place, edit)
    return list(chosen.values())
