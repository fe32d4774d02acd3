"""What was seen in a trial and what it left, in a form that can be compared.

Two trials are alike if an agent saw the same, left the same and was scored the same. What differs from world to world on purpose
(call ids, timings, fields declared volatile) is left out. `first_difference` says where two of them part, which is what a witness
shows; `changed` says what a trial changed in the world, leaf by leaf.
"""

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from sandlot.audit.subject import Trial
from sandlot.core.trace import EvidenceRecord, Failed, Node, Scored, ToolResult
from sandlot.core.types import Json, Role

_MASKED = "<volatile>"
_STAMPED = ("/.git/index",)
"""Files that hold the time and place of other files on disk: no author can make them the same again."""
_SHOWN_CHARS = 160
MISSING = "<nothing>"
"""What stands in a difference where one side has no such thing."""


@dataclass(frozen=True, slots=True)
class Mismatch:
    """Where two things part: `observations.2.text`, and what each has there."""

    where: str
    left: str
    right: str

    def __str__(self) -> str:
        return f"{self.where}: {self.left} | {self.right}"


@dataclass(frozen=True, slots=True)
class Observation:
    """One thing the environment said: a message, or the result of a call."""

    tool: str
    """The tool that was called; empty for a message."""
    text: str
    error: bool = False
    arguments: Json = field(default_factory=dict[str, Any])
    whole: str | None = None
    """The hash of all of it, where the session cut it."""


# -- what an agent saw -------------------------------------------------------------------------------------------------


def opening(trial: Trial) -> list[tuple[str, str]]:
    """Who said what before the agent's first turn."""
    nodes = trial.trace.nodes if trial.trace else []
    first = next((place for place, node in enumerate(nodes) if node.sampled), len(nodes))
    return [(node.message.role.value, node.message.text) for node in nodes[:first]]


def opening_text(trial: Trial) -> str:
    """What the agent was told at the start, system prompt aside."""
    return "\n".join(text for role, text in opening(trial) if role != Role.SYSTEM.value)


def observations(trial: Trial) -> list[Observation]:
    """Everything the environment said after the agent's first turn, in order."""
    nodes = trial.trace.nodes if trial.trace else []
    calls = {call.id: call for node in nodes for call in node.message.calls}
    heard: list[Observation] = []
    begun = False
    for node in nodes:
        begun = begun or node.sampled
        if begun and not node.sampled:
            heard += _observations_in(node, calls)
    return heard


def _observations_in(node: Node, calls: dict[str, Any]) -> Iterator[Observation]:
    for part in node.message.parts:
        if isinstance(part, ToolResult):
            call = calls.get(part.call)
            arguments = cast("Json", call.arguments) if call else {}
            yield Observation(call.name if call else "", part.text, part.error, arguments, part.whole)
    if node.message.text:
        yield Observation("", node.message.text)


# -- what can be compared ----------------------------------------------------------------------------------------------


def gradings_of(trial: Trial) -> Json:
    """How it came out: points of every check, or whose failure it was."""
    if trial.lost is not None:
        return {"lost": trial.lost.kind}
    return {"gradings": [_grading(each) for each in trial.scores]}


def _grading(outcome: Scored | Failed) -> Json:
    if isinstance(outcome, Failed):
        return {"failed": [outcome.side.value, outcome.kind]}
    score = outcome.score
    return {"value": score.value, "points": score.points, "checks": {check.id: check.value for check in score.checks}}


def observed_by_agent(trial: Trial, volatile: Collection[str] = (), without: Collection[str] = ()) -> Json:
    """The opening, and what came after it; results of the tools `without` are left out."""
    return {
        "opening": [mask_volatile(said, volatile) for said in opening(trial)],
        "observations": [
            {"tool": shown.tool, "text": mask_volatile(shown.text, volatile), "error": shown.error}
            for shown in observations(trial)
            if shown.tool not in without
        ],
    }


def left_behind(trial: Trial, volatile: Collection[str] = ()) -> Json:
    """The final state and files."""
    record = trial.trace.evidence if trial.trace and trial.trace.evidence else EvidenceRecord()
    files = {path: _file_of(trial, path, volatile) for path in record.files if not path.endswith(_STAMPED)}
    return {"state": mask_volatile(record.state, volatile), "files": files}


def _file_of(trial: Trial, path: str, volatile: Collection[str] = ()) -> str:
    """A file's text where it came back with the trial, else its hash and size."""
    assert trial.trace is not None
    assert trial.trace.evidence is not None
    record = trial.trace.evidence.files[path]
    data = trial.files.get(record.blob or "")
    if data is None:
        return f"{record.size} bytes {record.blob}"
    return mask_volatile(data.decode(errors="backslashreplace"), volatile)


def mask_volatile(thing: Any, volatile: Collection[str]) -> Any:
    """The same with volatile fields blotted out: in records by key, in text where it says `name: value` or `"name": value`."""
    if not volatile:
        return thing
    if isinstance(thing, dict):
        fields = cast("Json", thing)
        return {name: _MASKED if name in volatile else mask_volatile(value, volatile) for name, value in fields.items()}
    if isinstance(thing, list | tuple):
        return [mask_volatile(each, volatile) for each in cast("Sequence[Any]", thing)]
    if isinstance(thing, str):
        names = "|".join(re.escape(name) for name in sorted(volatile))
        return re.sub(rf"""(["']?\b(?:{names})\b["']?\s*[:=]\s*)("[^"]*"|'[^']*'|[^\s,;}}\]]+)""", rf"\1{_MASKED}", thing)
    return thing


def first_difference(one: Any, other: Any, where: str = "") -> Mismatch | None:
    """Where two things part first; None if they are the same."""
    ones, others = _children(one), _children(other)
    if ones is None or others is None or isinstance(one, dict) != isinstance(other, dict):
        return None if one == other and type(one) is type(other) else Mismatch(where, *_shortened_pair(one, other))
    for name in sorted({*ones, *others}, key=str if isinstance(one, dict) else None):
        if found := first_difference(ones.get(name, MISSING), others.get(name, MISSING), _join_path(where, name)):
            return found
    return None


def _children(thing: Any) -> dict[Any, Any] | None:
    """What a record or a list holds, by name or place; None for a single value."""
    if isinstance(thing, dict):
        return cast("Json", thing)
    return dict(enumerate(cast("Sequence[Any]", thing))) if isinstance(thing, list | tuple) else None


def _shortened_pair(one: Any, other: Any) -> tuple[str, str]:
    """Both, shortened to where they part if they are long texts."""
    texts = [each if isinstance(each, str) else repr(each) for each in (one, other)]
    same = next((at for at, (a, b) in enumerate(zip(*texts, strict=False)) if a != b), min(map(len, texts)))
    start = max(0, same - 40) if max(map(len, texts)) > _SHOWN_CHARS else 0
    return tuple(repr(("..." if start else "") + text[start : start + _SHOWN_CHARS]) for text in texts)  # pyright: ignore[reportReturnType]


def _join_path(where: str, name: object) -> str:
    return f"{where}.{name}" if where else str(name)


def mentions(text: str, value: str) -> bool:
    """True if a text has the value as a word or number of its own: not in a longer word, nor as a part of a decimal."""
    value = value.strip()
    return bool(value) and re.search(rf"(?<![\w.]){re.escape(value)}(?!\w|\.\d)", text) is not None


# -- what was changed --------------------------------------------------------------------------------------------------


def leaves(thing: Any, where: str = "") -> dict[str, Any]:
    """Every single value of a record, by its path."""
    if isinstance(thing, dict) and thing:
        found: dict[str, Any] = {}
        for name, value in cast("Json", thing).items():
            found |= leaves(value, _join_path(where, name))
        return found
    if isinstance(thing, list | tuple) and thing:
        found = {}
        for place, value in enumerate(cast("Sequence[Any]", thing)):
            found |= leaves(value, _join_path(where, place))
        return found
    return {where: thing}


def changes_between(before: Trial, after: Trial) -> dict[str, Any]:
    """What is otherwise after one trial than after another: `state.x.y` or `files./path`, and what is there now."""
    old, new = (leaves(left_behind(trial)) for trial in (before, after))
    return {where: new.get(where, MISSING) for where in {**old, **new} if old.get(where, MISSING) != new.get(where, MISSING)}
