"""Where rollouts of one task part: messages and tokens that they share, and what one did that another did not."""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from sandlot.core.branching import common_prefix
from sandlot.core.rubric import CheckResult
from sandlot.core.text import one_line
from sandlot.core.tokens import path_indices, unpacked_ids
from sandlot.core.trace import Message, Reasoning, Scored, Text, ToolCall, ToolResult, Trace

MessageKey = tuple[Any, ...]
_DEPTH = 40
"""Partings on one path that are shown."""
_LISTED = 30


def message_key(message: Message) -> MessageKey:
    """What makes two messages the same: everything but the ids of calls, which a server makes up."""
    return (message.role, message.agent, *(_part_key(part) for part in message.parts))


def _part_key(part: Any) -> tuple[Any, ...]:
    match part:
        case Text() | Reasoning():
            return type(part).__name__, part.text
        case ToolCall():
            return "call", *call_key(part)
        case ToolResult():
            return "result", part.text, part.error, part.images
        case _:
            return "artifact", part.artifact


def call_key(call: ToolCall) -> tuple[str, str]:
    """The name and the arguments of a call."""
    return call.name, call.malformed or msgspec.json.encode(call.arguments, order="deterministic").decode()


def message_keys(trace: Trace) -> list[MessageKey]:
    """The messages of a trace's last path."""
    return [message_key(trace.nodes[number].message) for number in path_indices(trace)]


def parting_tree(traces: Sequence[Trace]) -> dict[str, Any] | None:
    """The tree of the rollouts' conversations: what all share, then what parts them. None for fewer than two."""
    if len(traces) < 2:
        return None
    keys = {trace.rollout: message_keys(trace) for trace in traces}
    by_rollout = {trace.rollout: trace for trace in traces}
    return _branch(by_rollout, keys, list(by_rollout), 0, _DEPTH)


def _branch(
    traces: dict[int, Trace], keys: dict[int, list[MessageKey]], members: list[int], start: int, depth: int
) -> dict[str, Any]:
    """What these rollouts share from message `start` on, and the branches after it."""
    end = start
    first = keys[members[0]]
    while end < len(first) and all(len(keys[each]) > end and keys[each][end] == first[end] for each in members):
        end += 1
    found: dict[str, Any] = {"members": members, "start": start, "end": end, "branches": [], "token": None, "deeper": False}
    found["says"] = _says(traces[members[0]], start) if start < end else "ends here"
    found["message"] = _number(traces[members[0]], start)
    if len(members) == 1:
        return found
    parts: dict[MessageKey | None, list[int]] = {}
    for each in members:
        parts.setdefault(keys[each][end] if end < len(keys[each]) else None, []).append(each)
    found["token"] = _first_other_token([traces[each] for each in members], end)
    if depth:
        found["branches"] = [_branch(traces, keys, each, end, depth - 1) for each in parts.values() if len(parts) > 1]
    found["deeper"] = len(parts) > 1 and not depth
    return found


def _number(trace: Trace, place: int) -> int | None:
    path = path_indices(trace)
    return path[place] if place < len(path) else None


def _says(trace: Trace, place: int) -> str:
    """A message in one line."""
    number = _number(trace, place)
    message = trace.nodes[number or 0].message
    calls = [f"{call.name}({', '.join(str(value) for value in call.arguments.values())})" for call in message.calls]
    results = [result.text for result in message.results]
    return f"{message.role}: {one_line(' '.join([message.text[:200], *(each[:200] for each in (*calls, *results))]), 160)}"


def _first_other_token(traces: Sequence[Trace], place: int) -> dict[str, int] | None:
    """In the message where rollouts part: how many of its sampled tokens are the same; None if their tokens are not stored."""
    rows: list[list[int]] = []
    number = None
    for trace in traces:
        number = _number(trace, place)
        tokens = trace.nodes[number].tokens if number is not None else None
        if tokens is None:
            return None
        rows.append(unpacked_ids(tokens.ids))
    return {"message": number or 0, "token": min(common_prefix(rows[0], row) for row in rows[1:])}


def what_differs(best: Trace, worst: Trace) -> dict[str, Any]:
    """What one rollout did that another did not: calls, checks and files."""
    return {
        "calls": _calls_only_in(best, worst),
        "missing": _calls_only_in(worst, best),
        "checks": [check.id for check in _checks(best) if check.id in {each.id for each in _gained(best, worst)}],
        "files": _files_only_in(best, worst),
        "files_missing": _files_only_in(worst, best),
    }


def _calls_only_in(one: Trace, other: Trace) -> list[dict[str, Any]]:
    """The calls of one rollout that another did not make as often."""
    left = Counter(call_key(call) for _, call in _calls(other))
    found: list[dict[str, Any]] = []
    for number, call in _calls(one):
        key = call_key(call)
        if left[key]:
            left[key] -= 1
        else:
            found.append({"message": number, "name": one_line(call.name, 60), "arguments": one_line(key[1], 200)})
    return found[:_LISTED]


def _calls(trace: Trace) -> Iterable[tuple[int, ToolCall]]:
    return ((number, call) for number in path_indices(trace) for call in trace.nodes[number].message.calls)


def _checks(trace: Trace) -> Sequence[CheckResult]:
    return trace.outcome.score.checks if isinstance(trace.outcome, Scored) else ()


def _gained(one: Trace, other: Trace) -> list[CheckResult]:
    points = {check.id: check.points for check in _checks(other)}
    return [check for check in _checks(one) if check.points > points.get(check.id, 0.0)]


def _files_only_in(one: Trace, other: Trace) -> list[str]:
    """Files that one rollout left and another did not leave so."""
    if one.evidence is None or other.evidence is None:
        return []
    theirs = other.evidence.files
    return [path for path, file in sorted(one.evidence.files.items()) if theirs.get(path) != file][:_LISTED]
