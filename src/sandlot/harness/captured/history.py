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
from typing import Any

import msgspec

from sandlot.core.branching import DriftKind
from sandlot.core.ports.world import ToolSpec
from sandlot.core.trace import Event, Message, Node, Reasoning, Text, ToolCall, ToolResult, Trace
from sandlot.core.types import Role, digest

Shape = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class _KnownPrefix:
    """The beginning of a conversation that is in the trace already."""

    leaf: int | None = None
    num: int = 0
    """Messages that were found."""
    realigned: int = 0
    """Turns of them that are the same but for white space."""


@dataclass(slots=True)
class History:
    """The trace as one client's conversations; several begin at several roots."""

    trace: Trace
    drifts: Counter[DriftKind] = field(default_factory=Counter[DriftKind])
    """Requests by the worst that happened to their history."""
    _tools: dict[int, str] = field(default_factory=dict[int, str])
    """Which tools a conversation began with (their digest), by its root: with others its prompt is another one."""
    _children: dict[int | None, list[int]] = field(default_factory=dict[int | None, list[int]])
    _num_seen: int = 0

    def leaf_of(self, messages: Sequence[Message], tools: Sequence[ToolSpec]) -> int:
        """The node a turn is to be taken below: found as far as possible, appended from there."""
        tools_digest = digest(msgspec.json.encode(list(tools)))
        found = self._find_known(messages, tools_digest)
        leaf, realigned = found.leaf, found.realigned
        forked = self._has_fork(leaf)
        for message in messages[found.num :]:
            parent, leaf = leaf, self.trace.append(Node(message=message, parent=leaf))
            if parent is None:
                self._tools[leaf] = tools_digest
        if leaf is None:
            raise ValueError("a history has at least one message")
        kind = DriftKind.FORK if forked else DriftKind.REALIGN if realigned else DriftKind.CLEAN
        self.drifts[kind] += 1
        if kind is not DriftKind.CLEAN:
            detail = {"kind": kind.value, "found": found.num, "of": len(messages), "realigned": realigned}
            self.trace.events.append(Event(kind="history_drift", turn=self.trace.num_turns, detail=detail))
        return leaf

    def forget_from(self, num_nodes: int) -> None:
        """Take back what was appended for a turn that was not taken: every node from this one on."""
        del self.trace.nodes[num_nodes:]
        self._tools = {root: tools_digest for root, tools_digest in self._tools.items() if root < num_nodes}
        if self._num_seen > num_nodes:
            self._children.clear()
            self._num_seen = 0

    def _find_known(self, messages: Sequence[Message], tools_digest: str) -> "_KnownPrefix":
        """The longest path that the messages begin with.

        Of several that fit, the newest: a client goes on with the last answer it got.
        """
        best = _KnownPrefix()
        roots = [index for index, tools in self._tools.items() if tools == tools_digest]
        paths = [best]
        for num, message in enumerate(messages, start=1):
            longer: list[_KnownPrefix] = []
            for path in paths:
                for index in roots if path.leaf is None else self._children_of(path.leaf):
                    same = _compare(self.trace.nodes[index], message)
                    if same is not None:
                        longer.append(_KnownPrefix(index, num, path.realigned + (same is DriftKind.REALIGN)))
            if not longer:
                break
            paths = longer
            best = max(longer, key=lambda found: (-found.realigned, found.leaf))
        return best

    def _children_of(self, parent: int) -> list[int]:
        nodes = self.trace.nodes
        for index in range(self._num_seen, len(nodes)):
            self._children.setdefault(nodes[index].parent, []).append(index)
        self._num_seen = len(nodes)
        return self._children.get(parent, [])

    def _has_fork(self, leaf: int | None) -> bool:
        """True if a turn was sampled below here, or in a conversation that began here: it is not in what came back."""
        if leaf is None:
            return bool(self._tools)
        below = list(self._children_of(leaf))
        while below:
            index = below.pop()
            if self.trace.nodes[index].sampled:
                return True
            below += self._children_of(index)
        return False


def _compare(node: Node, message: Message) -> DriftKind | None:
    """Clean if a message is the node's own, realign if it differs in white space only; None if it is another one."""
    mine, theirs = shape_of(node.message), shape_of(message)
    if mine == theirs:
        return DriftKind.CLEAN
    loose = node.sampled and message.role is Role.ASSISTANT and _without_spaces(mine) == _without_spaces(theirs)
    return DriftKind.REALIGN if loose else None


def shape_of(message: Message) -> Shape:
    """What is compared: who spoke, the text, the calls by name and arguments, the results by their text."""
    text = "".join(part.text for part in message.parts if isinstance(part, Text))
    rest = [_part_shape(part) for part in message.parts if not isinstance(part, Text | Reasoning)]
    return (message.role.value, text, *rest)


def _part_shape(part: object) -> Shape:
    match part:
        case ToolCall():
            return ("call", part.name, part.malformed if part.malformed is not None else _arguments_key(part.arguments))
        case ToolResult():
            return ("result", part.text)
        case _:
            return (type(part).__name__, repr(part))


def _arguments_key(arguments: object) -> bytes:
    """Arguments whose order does not matter."""
    return msgspec.json.encode(arguments, order="sorted")


def _without_spaces(shape: Shape) -> Shape:
    role, text, *rest = shape
    return (role, " ".join(text.split()), *(tuple(_squeeze(each) for each in part) for part in rest))


def _squeeze(value: object) -> object:
    return " ".join(value.split()) if isinstance(value, str) else value
