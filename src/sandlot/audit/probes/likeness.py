"""What an agent saw in a trial and what the trial left, in a form that can be compared.

Two trials are equal if the agent saw the same, left the same and got the same score. Call ids, timings and fields declared
volatile differ on purpose and are left out. `first_difference` gives the place that a witness shows; `changes_between` gives what
a trial changed in the world, value by value.
"""

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, cast

import msgspec

from sandlot.audit.subject import Trial
from sandlot.core.trace import Failed, Node, Scored, ToolResult
from sandlot.core.types import Json, Role

EPSILON = 1e-9
"""Rewards that differ by less are equal."""
_MASKED = "<volatile>"
_STAMPED = ("/.git/index",)
"""Files that store times and disk positions of other files, which no author can reproduce."""
_SHOWN_CHARS = 160
_MOMENT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]00:?00)?|\b\d{10}(?:\.\d+)?\b")
_SECOND = len("2026-01-05T09:00:00")
MISSING = "<nothing>"
"""Stands for a value that one side does not have."""


@dataclass(frozen=True, slots=True)
class Mismatch:
    """The first place where two values differ (`observations.2.text`), and both values there."""

    where: str
    left: str
    right: str

    def __str__(self) -> str:
        return f"{self.where}: {self.left} | {self.right}"


@dataclass(frozen=True, slots=True)
class Observation:
    """One thing the environment showed: a message, or a tool result."""

    tool: str
    """Name of the tool; empty for a message."""
    text: str
    error: bool = False
    arguments: Json = field(default_factory=dict[str, Any])
    whole: str | None = None
    """Hash of the whole result, if the session cut it."""


# -- what an agent saw -------------------------------------------------------------------------------------------------


def opening(trial: Trial) -> list[tuple[str, str]]:
    """Role and text of each message before the agent's first turn."""
    nodes = trial.trace.nodes if trial.trace else []
    first = next((place for place, node in enumerate(nodes) if node.sampled), len(nodes))
    return [(node.message.role.value, node.message.text) for node in nodes[:first]]


def opening_text(trial: Trial) -> str:
    """The messages before the agent's first turn, without the system prompt."""
    return "\n".join(text for role, text in opening(trial) if role != Role.SYSTEM.value)


def observations(trial: Trial) -> list[Observation]:
    """Messages and tool results after the agent's first turn, in order."""
    nodes = trial.trace.nodes if trial.trace else []
    calls = {call.id: call for node in nodes for call in node.message.calls}
    found: list[Observation] = []
    begun = False
    for node in nodes:
        begun = begun or node.sampled
        if begun and not node.sampled:
            found += _observations_in(node, calls)
    return found


def _observations_in(node: Node, calls: dict[str, Any]) -> Iterator[Observation]:
    for part in node.message.parts:
        if isinstance(part, ToolResult):
            call = calls.get(part.call)
            arguments = cast("Json", call.arguments) if call else {}
            yield Observation(call.name if call else "", part.text, part.error, arguments, part.whole)
    if node.message.text:
        yield Observation("", node.message.text)


# -- comparing ---------------------------------------------------------------------------------------------------------


def gradings_of(trial: Trial) -> Json:
    """The points of every check, or the side and kind of the failure."""
    if trial.lost is not None:
        return {"lost": trial.lost.kind}
    return {"gradings": [_grading(each) for each in trial.scores]}


def _grading(outcome: Scored | Failed) -> Json:
    if isinstance(outcome, Failed):
        return {"failed": [outcome.side.value, outcome.kind]}
    score = outcome.score
    return {"value": score.value, "points": score.points, "checks": {check.id: check.value for check in score.checks}}


def observed_by_agent(trial: Trial, volatile: Collection[str] = (), without: Collection[str] = ()) -> Json:
    """The opening and the observations after it; results of the tools in `without` are left out."""
    return {
        "opening": [mask_volatile(said, volatile) for said in opening(trial)],
        "observations": [
            {"tool": shown.tool, "text": mask_volatile(shown.text, volatile), "error": shown.error}
            for shown in observations(trial)
            if shown.tool not in without
        ],
    }


def left_behind(trial: Trial, volatile: Collection[str] = (), without: Collection[str] = ()) -> Json:
    """The final state and files, and what changed in the apps; files in `without` are left out."""
    record = trial.evidence
    paths = [path for path in record.files if path not in without and not path.endswith(_STAMPED)]
    files = {path: _file_of(trial, path, volatile) for path in paths}
    left: Json = {"state": mask_volatile(record.state, volatile), "files": files}
    if record.apps is not None:
        left["apps"] = {"bases": record.apps.bases, "changes": mask_volatile(_app_changes(trial), volatile)}
    return left


def _app_changes(trial: Trial) -> Json:
    """The changes of the apps that a trial carries, by number and app."""
    record = trial.evidence.apps
    data = trial.files.get(record.journal, b"") if record else b""
    changes: list[Json] = msgspec.msgpack.decode(data) if data else []
    return {f"{number}.{change['app']}": change for number, change in enumerate(changes)}


def _file_of(trial: Trial, path: str, volatile: Collection[str] = ()) -> str:
    """A file's text if the trial carries it, else its size and hash."""
    record = trial.evidence.files[path]
    data = trial.files.get(record.blob or "")
    if data is None:
        return f"{record.size} bytes {record.blob}"
    return mask_volatile(data.decode(errors="backslashreplace"), volatile)


def mask_volatile(thing: Any, volatile: Collection[str]) -> Any:
    """The same with volatile fields masked: by key in records, and in text of the form `name: value`."""
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
    """The first difference of two values; None if they are equal."""
    ones, others = _children(one), _children(other)
    if ones is None or others is None or isinstance(one, dict) != isinstance(other, dict):
        return None if one == other and type(one) is type(other) else Mismatch(where, *_shortened_pair(one, other))
    for name in sorted({*ones, *others}, key=str if isinstance(one, dict) else None):
        if found := first_difference(ones.get(name, MISSING), others.get(name, MISSING), _join_path(where, name)):
            return found
    return None


def _children(thing: Any) -> dict[Any, Any] | None:
    """The entries of a record or list by name or index; None for a single value."""
    if isinstance(thing, dict):
        return cast("Json", thing)
    return dict(enumerate(cast("Sequence[Any]", thing))) if isinstance(thing, list | tuple) else None


def _shortened_pair(one: Any, other: Any) -> tuple[str, str]:
    """Both values; long texts are cut to where they differ."""
    texts = [each if isinstance(each, str) else repr(each) for each in (one, other)]
    same = next((at for at, (a, b) in enumerate(zip(*texts, strict=False)) if a != b), min(map(len, texts)))
    start = max(0, same - 40) if max(map(len, texts)) > _SHOWN_CHARS else 0
    return tuple(repr(("..." if start else "") + text[start : start + _SHOWN_CHARS]) for text in texts)  # pyright: ignore[reportReturnType]


def _join_path(where: str, name: object) -> str:
    return f"{where}.{name}" if where else str(name)


def mentions(text: str, value: str) -> bool:
    """True if the text contains the value as a whole word or number."""
    value = value.strip()
    return bool(value) and re.search(rf"(?<![\w.]){re.escape(value)}(?!\w|\.\d)", text) is not None


def _without_moments(trial: Trial, without: Collection[str]) -> Json:
    """What a trial left, with every moment at which it changed an app masked, as ISO time or as seconds."""
    left = left_behind(trial, without=without)
    changes: Json = left.get("apps", {}).get("changes", {})
    known = {str(change["at"])[:_SECOND] for change in changes.values() if "at" in change}

    def mask(found: re.Match[str]) -> str:
        text = found.group()
        if "T" not in text:
            text = datetime.fromtimestamp(int(text[:10]), UTC).isoformat()
        return _MASKED if text[:_SECOND] in known else found.group()

    def masked(thing: Any) -> Any:
        if isinstance(thing, dict):
            return {name: masked(value) for name, value in cast("Json", thing).items()}
        if isinstance(thing, list | tuple):
            return [masked(each) for each in cast("Sequence[Any]", thing)]
        return _MOMENT.sub(mask, thing) if isinstance(thing, str) else thing

    return {**left, "apps": {**left["apps"], "changes": masked(changes)}} if changes else left


# -- changes -----------------------------------------------------------------------------------------------------------


def leaves(thing: Any, where: str = "") -> dict[str, Any]:
    """Every single value of a record, by path."""
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


def unchanged_files(before: Trial, after: Trial) -> set[str]:
    """Paths of files that are the same in both trials: most of a repository, which then need not be read."""
    files = after.evidence.files
    return {path for path, record in before.evidence.files.items() if files.get(path) == record}


def changes_between(before: Trial, after: Trial, *, timeless: bool = False) -> dict[str, Any]:
    """What differs after the second trial: `state.x.y` or `files./path`, with the new value.

    With `timeless`, the moments at which apps were changed are left out: one reading call less, and all later ones differ.
    """
    same = unchanged_files(before, after)

    def left_by(trial: Trial) -> Json:
        left = _without_moments(trial, same) if timeless else left_behind(trial, without=same)
        return {name: value for name, value in left.items() if value or name != "files"}

    old, new = map(leaves, _unlike(left_by(before), left_by(after)))
    return {where: new.get(where, MISSING) for where in {**old, **new} if old.get(where, MISSING) != new.get(where, MISSING)}


def _unlike(one: Any, other: Any) -> tuple[Any, Any]:
    """Both without the entries that are equal: most of a database, whose single values need not be looked at."""
    ones, others = _children(one), _children(other)
    if not ones or not others or type(one) is not type(other):
        return one, other
    equal = {name for name, value in ones.items() if name in others and others[name] == value}
    if equal and not (equal < ones.keys() and equal < others.keys()):
        equal.pop()  # a record of which nothing is left would be a value of its own
    left = {name: value for name, value in ones.items() if name not in equal}
    right = {name: value for name, value in others.items() if name not in equal}
    for name in left.keys() & right.keys():
        left[name], right[name] = _unlike(left[name], right[name])
    return left, right
