"""Two rollouts of one task, compared message by message."""

import difflib
from collections.abc import Sequence
from typing import Any

from sandlot.core.errors import ConfigError
from sandlot.core.text import printable
from sandlot.core.tokens import path_indices
from sandlot.core.trace import Reasoning, Scored, Text, ToolCall, ToolResult, Trace
from sandlot.web.pages.files import diff_lines
from sandlot.web.pages.parting import call_key, message_key, what_differs
from sandlot.web.site import Asked

_MESSAGES = 2_000
"""Messages of each rollout that are compared."""
_BLOCKS = 60
"""Places where they differ that are shown."""
_SHOWN = 12
"""Messages of each side of such a place."""
_CUT, _LINES = 20_000, 120


def diff_page(asked: Asked) -> dict[str, Any]:
    """The rollouts `one` and `other` of a task."""
    run, task = asked.opened, asked.query.get("task", "")
    one, other = asked.number("one"), asked.number("other")
    if one == other:
        raise ConfigError(f"rollout {one} is compared with itself; name two rollouts: `one` and `other`")
    left, right = run.trace(task, one), run.trace(task, other)
    blocks = _blocks(left, right)
    return {
        "title": f"{asked.run.name} / {task} / {one} and {other}",
        "name": asked.run.name,
        "task": task,
        "sides": [_side(left), _side(right)],
        "checks": _checks(left, right),
        "blocks": blocks[:_BLOCKS],
        "more": max(0, len(blocks) - _BLOCKS),
        "cut": max(len(path_indices(left)), len(path_indices(right))) > _MESSAGES,
        "differences": what_differs(left, right),
    }


def _side(trace: Trace) -> dict[str, Any]:
    return {
        "rollout": trace.rollout,
        "score": trace.outcome.score.value if isinstance(trace.outcome, Scored) else None,
        "turns": trace.num_turns,
        "end": str(trace.end or ""),
    }


def _checks(left: Trace, right: Trace) -> list[tuple[str, list[Any]]]:
    """The checks in which the two differ."""
    found: dict[str, list[Any]] = {}
    for place, trace in enumerate((left, right)):
        for check in trace.outcome.score.checks if isinstance(trace.outcome, Scored) else ():
            found.setdefault(check.id, [None, None])[place] = check
    return [(name, pair) for name, pair in found.items() if len({check.points if check else None for check in pair}) > 1]


def _blocks(left: Trace, right: Trace) -> list[dict[str, Any]]:
    """Stretches of messages that are the same, and places where they differ."""
    paths = [path_indices(trace)[:_MESSAGES] for trace in (left, right)]
    ours_keys, theirs_keys = (
        [message_key(trace.nodes[at].message) for at in path] for trace, path in zip((left, right), paths, strict=True)
    )
    blocks: list[dict[str, Any]] = []
    for kind, a, b, c, d in difflib.SequenceMatcher(None, ours_keys, theirs_keys).get_opcodes():
        if kind == "equal":
            blocks.append({"same": b - a, "first": paths[0][a], "first_other": paths[1][c]})
            continue
        ours, theirs = paths[0][a:b], paths[1][c:d]
        pairs = [
            _pair(left, right, ours[at] if at < len(ours) else None, theirs[at] if at < len(theirs) else None)
            for at in range(min(_SHOWN, max(len(ours), len(theirs))))
        ]
        blocks.append({"same": 0, "pairs": pairs, "more": max(len(ours), len(theirs)) - len(pairs)})
    return blocks


def _pair(left: Trace, right: Trace, ours: int | None, theirs: int | None) -> dict[str, Any]:
    """Two messages in the same place: side by side if they are of one role, their lines compared."""
    texts = [_text(trace, at) for trace, at in ((left, ours), (right, theirs))]
    roles = [str(trace.nodes[at].message.role) if at is not None else "" for trace, at in ((left, ours), (right, theirs))]
    lines: Sequence[tuple[str, str]] = ()
    if roles[0] == roles[1] and all(text.count("\n") < _LINES for text in texts):
        lines = list(diff_lines(*texts, context=2))[:_LINES]
    return {
        "sides": [
            {"number": at, "role": role, "text": printable(text, 2_000), "more": max(0, len(text) - 2_000)}
            for at, role, text in zip((ours, theirs), roles, texts, strict=True)
        ],
        "lines": lines,
    }


def _text(trace: Trace, number: int | None) -> str:
    """A message as text: what it says, then its calls or results."""
    if number is None:
        return ""
    pieces: list[str] = []
    for part in trace.nodes[number].message.parts:
        match part:
            case Text() | Reasoning():
                pieces.append(part.text)
            case ToolCall():
                pieces.append("{}({})".format(*call_key(part)))
            case ToolResult():
                pieces.append(part.text)
            case _:
                pieces.append(f"[{type(part).__name__} {part.artifact[:12]}]")
    return "\n".join(pieces)[:_CUT]
