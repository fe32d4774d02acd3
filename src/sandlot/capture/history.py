"""Finding a client's history again in the trace, so that what was sampled is never tokenised anew.

A client sends the whole conversation each time. It is compared with the tree message by message, by structure: ids of calls are
the wire's own and do not count, and reasoning does not travel. What is found keeps its node, and with it the exact tokens; only
the rest is appended. Three things can have happened to what was sampled:

    clean     it came back as it was said
    realign   it came back with other white space: it is the same turn, and its sampled tokens stay
    fork      it came back changed, or was left out: what came is appended beside it, and nothing is overwritten

All but the first leave an event in the trace.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

import msgspec

from sandlot.ports import ToolSpec
from sandlot.trace import Event, Message, Node, Reasoning, Text, ToolCall, ToolResult, Trace
from sandlot.types import Role

Shape = tuple[Any, ...]


class Drift(StrEnum):
    """What became of sampled turns on their way through a client."""

    CLEAN = "clean"
    REALIGN = "realign"
    FORK = "fork"


@dataclass(slots=True)
class History:
    """The trace as one client's conversations; several begin at several roots."""

    trace: Trace
    drifts: Counter[Drift] = field(default_factory=Counter[Drift])
    """Requests by the worst that happened to their history."""
    _tools: dict[int, bytes] = field(default_factory=dict[int, bytes])
    """Which tools a conversation began with, by its root: with others its prompt is another one."""
    _children: dict[int | None, list[int]] = field(default_factory=dict[int | None, list[int]])
    _num_seen: int = 0

    def leaf_of(self, messages: Sequence[Message], tools: Sequence[ToolSpec]) -> int:
        """The node a turn is to be taken below: found as far as possible, appended from there."""
        told = msgspec.json.encode(list(tools))
        path, realigned = self._found(messages, told)
        leaf = path[-1] if path else None
        forked = self._forked(leaf)
        for message in messages[len(path) :]:
            parent, leaf = leaf, self.trace.append(Node(message=message, parent=leaf))
            if parent is None:
                self._tools[leaf] = told
        if leaf is None:
            raise ValueError("a history has at least one message")
        kind = Drift.FORK if forked else Drift.REALIGN if realigned else Drift.CLEAN
        self.drifts[kind] += 1
        if kind is not Drift.CLEAN:
            detail = {"kind": kind.value, "found": len(path), "of": len(messages), "realigned": realigned}
            self.trace.events.append(Event(kind="drift", turn=self.trace.num_turns, detail=detail))
        return leaf

    def _found(self, messages: Sequence[Message], told: bytes) -> tuple[list[int], int]:
        """The longest path that the messages begin with, and how many of its turns are the same but for white space.

        Of several that fit, the newest: a client goes on with the last answer it got.
        """
        best: tuple[list[int], int] = ([], 0)
        roots = [index for index, tools in self._tools.items() if tools == told]
        paths: list[tuple[list[int], int]] = [([], 0)]
        for message in messages:
            longer: list[tuple[list[int], int]] = []
            for path, realigned in paths:
                for index in self._below(path[-1]) if path else roots:
                    same = _alike(self.trace.nodes[index], message)
                    if same is not None:
                        longer.append(([*path, index], realigned + (same is Drift.REALIGN)))
            if not longer:
                break
            paths = longer
            best = max(longer, key=lambda found: (-found[1], found[0][-1]))
        return best

    def _below(self, parent: int) -> list[int]:
        nodes = self.trace.nodes
        for index in range(self._num_seen, len(nodes)):
            self._children.setdefault(nodes[index].parent, []).append(index)
        self._num_seen = len(nodes)
        return self._children.get(parent, [])

    def _forked(self, leaf: int | None) -> bool:
        """True if a turn was sampled below here, or in a conversation that began here: it is not in what came back."""
        if leaf is None:
            return bool(self._tools)
        return any(self._sampled_below(index) for index in self._below(leaf))

    def _sampled_below(self, index: int) -> bool:
        return self.trace.nodes[index].sampled or any(self._sampled_below(each) for each in self._below(index))


def _alike(node: Node, message: Message) -> Drift | None:
    """Clean if a message is the node's own, realign if it differs in white space only; None if it is another one."""
    mine, theirs = shape_of(node.message), shape_of(message)
    if mine == theirs:
        return Drift.CLEAN
    loose = node.sampled and message.role is Role.ASSISTANT and _loose(mine) == _loose(theirs)
    return Drift.REALIGN if loose else None


def shape_of(message: Message) -> Shape:
    """What is compared: who spoke, the text, the calls by name and arguments, the results by their text."""
    text = "".join(part.text for part in message.parts if isinstance(part, Text))
    rest = [_part(part) for part in message.parts if not isinstance(part, Text | Reasoning)]
    return (message.role.value, text, *rest)


def _part(part: object) -> Shape:
    match part:
        case ToolCall():
            return ("call", part.name, part.malformed if part.malformed is not None else _plain(part.arguments))
        case ToolResult():
            return ("result", part.text)
        case _:
            return (type(part).__name__, repr(part))


def _plain(arguments: object) -> bytes:
    """Arguments whose order does not matter."""
    return msgspec.json.encode(arguments, order="sorted")


def _loose(shape: Shape) -> Shape:
    role, text, *rest = shape
    return (role, " ".join(text.split()), *(tuple(_squeezed(each) for each in part) for part in rest))


def _squeezed(value: object) -> object:
    return " ".join(value.split()) if isinstance(value, str) else value
