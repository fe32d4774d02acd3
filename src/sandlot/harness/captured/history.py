"""Matches a client's message history with the trace, so that sampled messages are never tokenised again.

A client sends the whole conversation each time. It is compared with the trace's tree message by message, by structure: ids of
calls are ignored, and so is reasoning, which clients do not send back. Messages that are found keep their nodes, and with them
the exact tokens; only the rest is appended. A sampled message can come back in three ways:

    clean     unchanged
    realign   with different white space: it is the same turn, and its sampled tokens stay
    fork      changed or left out: the new messages are appended beside it, and nothing is overwritten

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
    """The start of a conversation that is already in the trace."""

    leaf: int | None = None
    num: int = 0
    """Number of messages found."""
    realigned: int = 0
    """Number of them that differ in white space."""


@dataclass(slots=True)
class History:
    """The conversations of one client in the trace; each starts at its own root."""

    trace: Trace
    drifts: Counter[DriftKind] = field(default_factory=Counter[DriftKind])
    """Number of requests by the worst drift of their history."""
    _tools: dict[int, str] = field(default_factory=dict[int, str])
    """Digest of the tools of each conversation, by its root: with other tools the prompt is different."""
    _children: dict[int | None, list[int]] = field(default_factory=dict[int | None, list[int]])
    _num_seen: int = 0

    def leaf_of(self, messages: Sequence[Message], tools: Sequence[ToolSpec]) -> int:
        """The node below which the next turn is taken: messages are found as far as possible, and the rest is appended."""
        tools_digest = digest(msgspec.json.encode(list(tools)))
        found = self._find_known(messages, tools_digest)
        leaf, realigned = found.leaf, found.realigned
        forked = self._has_fork(leaf)
        for message in messages[found.num :]:
            parent, leaf = leaf, self.trace.append(Node(message=message, parent=leaf))
            if parent is None:
                self._tools[leaf] = tools_digest
        if leaf is None:
            raise ValueError("a history without messages")
        kind = DriftKind.FORK if forked else DriftKind.REALIGN if realigned else DriftKind.CLEAN
        self.drifts[kind] += 1
        if kind is not DriftKind.CLEAN:
            detail = {"kind": kind.value, "found": found.num, "of": len(messages), "realigned": realigned}
            self.trace.events.append(Event(kind="history_drift", turn=self.trace.num_turns, detail=detail))
        return leaf

    def forget_from(self, num_nodes: int) -> None:
        """Remove the nodes from this index on: they were appended for a turn that was not taken."""
        del self.trace.nodes[num_nodes:]
        self._tools = {root: tools_digest for root, tools_digest in self._tools.items() if root < num_nodes}
        if self._num_seen > num_nodes:
            self._children.clear()
            self._num_seen = 0

    def _find_known(self, messages: Sequence[Message], tools_digest: str) -> "_KnownPrefix":
        """The longest path of the tree that the messages start with.

        If several match, the newest: a client continues with the last response it got.
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
        """True if a sampled turn below this node (None: of any conversation) is missing in the request."""
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
    """Clean if the messages are equal, realign if they differ in white space only; None if they are different."""
    mine, theirs = shape_of(node.message), shape_of(message)
    if mine == theirs:
        return DriftKind.CLEAN
    loose = node.sampled and message.role is Role.ASSISTANT and _without_spaces(mine) == _without_spaces(theirs)
    return DriftKind.REALIGN if loose else None


def shape_of(message: Message) -> Shape:
    """What is compared: role, text, calls by name and arguments, results by their text."""
    rest = [_part_shape(part) for part in message.parts if not isinstance(part, Text | Reasoning)]
    return (message.role.value, message.text, *rest)


def _part_shape(part: object) -> Shape:
    match part:
        case ToolCall():
            # The order of arguments does not matter.
            arguments = msgspec.json.encode(part.arguments, order="sorted")
            return ("call", part.name, part.malformed if part.malformed is not None else arguments)
        case ToolResult():
            return ("result", part.text, *(image.artifact for image in part.images))
        case _:
            return (type(part).__name__, repr(part))


def _without_spaces(shape: Shape) -> Shape:
    role, text, *rest = shape
    squeezed = (tuple(" ".join(each.split()) if isinstance(each, str) else each for each in part) for part in rest)
    return (role, " ".join(text.split()), *squeezed)
