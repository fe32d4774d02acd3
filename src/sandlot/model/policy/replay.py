"""Replay: recorded turns are repeated while the tools run live.

The first `until` turns come from the recording; then another policy takes over, or the replay ends. If the world answers
differently than recorded, the turn gets the event `replay_diverged`.
"""

from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from dataclasses import dataclass
from itertools import zip_longest

import msgspec

from sandlot.core.concurrency.clock import SYSTEM_CLOCK
from sandlot.core.errors import ModelError
from sandlot.core.persona import AGENT, COLLEAGUE_ANSWERED, ROLE_ANSWERED, Persona
from sandlot.core.ports.session import Policies, Policy, User, UserTurn
from sandlot.core.ports.world import ToolSpec
from sandlot.core.seats import SeatTrace, seat_trace
from sandlot.core.task import Task
from sandlot.core.trace import Event, Message, Node, Part, Text, ToolCall, ToolResult, Trace, Usage
from sandlot.core.types import End, Json, Role
from sandlot.model.policy.player import messages_since_turn

_SHOWN_CHARS = 400
"""Characters of each side that an event quotes."""

FindTrace = Callable[[str, int], Trace | None]
"""(task id, rollout) to the recorded trace, or None."""


def replay_policies(
    traces: FindTrace, until: int | None = None, then: Policies | None = None, *, name: str = "replay"
) -> Policies:
    """Policies that replay the first `until` turns (None: all) of a recorded trace and continue with `then`."""
    return _ReplayPolicies(name if then is None else f"{name}+{then.name}", traces, until, then)


@dataclass(frozen=True, slots=True)
class _ReplayPolicies:
    """`ports.Policies` over recorded traces."""

    name: str
    traces: FindTrace
    until: int | None
    then: Policies | None

    @asynccontextmanager
    async def policy(self, task: Task, seed: int, rollout: int = 0) -> AsyncGenerator[Policy]:
        """A policy over the trace recorded for this rollout."""
        recorded = self.traces(task.id, rollout)
        if recorded is None:
            raise ModelError(f"rollout {rollout} of task `{task.id}` was not recorded and cannot be replayed", kind="not_found")
        if self.then is None:
            yield _ReplayPolicy(recorded, self.until, None)
            return
        async with self.then.policy(task, seed, rollout) as then:
            yield _ReplayPolicy(recorded, self.until, then)


class _ReplayPolicy:
    """Repeats recorded turns and compares the messages in between."""

    def __init__(self, recorded: Trace, until: int | None, then: Policy | None) -> None:
        self._recorded = recorded
        self._until = until
        self._then = then
        self._turns: list[int] = []
        self._num_turns = 0
        self._begun = False
        self._next = 0
        self._handed_over = False

    async def turn(self, trace: Trace, leaf: int, tools: Sequence[ToolSpec]) -> Node:
        """The recorded turn; after the last one, a turn of the next policy."""
        if not self._begun:
            self._begin(trace)
        if not self._handed_over:
            self._compare(trace, leaf)
            if self._next < self._num_turns:
                node = self._recorded.nodes[self._turns[self._next]]
                self._next += 1
                return _replayed_node(node, trace, leaf)
            self._handed_over = True
        if self._then is None:
            raise ModelError(
                f"the replay of `{self._recorded.task}` ended after {self._num_turns} turns, and the rollout goes on; "
                "give a model to continue with",
                kind="replay_over",
            )
        return await self._then.turn(trace, leaf, tools)

    def _begin(self, trace: Trace) -> None:
        """Find the turns to repeat; where several agents acted, those of the seat that is played."""
        self._begun = True
        if isinstance(trace, SeatTrace):
            seats = self._recorded.seats
            if trace.seat not in seats:
                raise ModelError(f"the recorded rollout has no seat `{trace.seat}`; its seats: {', '.join(seats) or 'none'}")
            self._recorded = seat_trace(self._recorded, trace.seat)
        self._turns = [index for index, node in enumerate(self._recorded.nodes) if node.is_turn]
        self._num_turns = len(self._turns) if self._until is None else min(self._until, len(self._turns))

    def _compare(self, trace: Trace, leaf: int) -> None:
        """Record differences between the recorded and the new messages before this turn."""
        if self._next >= len(self._turns):
            return
        before = self._recorded.nodes[self._turns[self._next]].parent
        then = messages_since_turn(self._recorded, before) if before is not None else ()
        for detail in _differences(then, messages_since_turn(trace, leaf)):
            trace.events.append(Event(kind="replay_diverged", turn=trace.num_turns, detail=detail))


@dataclass(frozen=True, slots=True)
class ReplayUsers:
    """`ports.Users` that repeat what users and colleagues wrote in recorded traces."""

    traces: FindTrace
    name: str = "replay"

    def user(self, persona: Persona, task: Task, seed: int, rollout: int = 0) -> AbstractAsyncContextManager[User]:  # noqa: ARG002 - all is recorded
        """The user of the trace recorded for this rollout."""
        recorded = self.traces(task.id, rollout)
        if recorded is None:
            raise ModelError(
                f"rollout {rollout} of task `{task.id}` was not recorded; its user cannot be replayed", kind="not_found"
            )
        if persona.role:
            return nullcontext(_ReplayRole(recorded))
        if persona.address:
            return nullcontext(_ReplayColleague(recorded, persona.address))
        return nullcontext(_ReplayUser(recorded, task.prompt))


class _ReplayUser:
    """Repeats the recorded user messages, whatever the agent writes."""

    def __init__(self, recorded: Trace, prompt: str) -> None:
        self._prompt = prompt
        self._task = recorded.task
        self._left = [node for node in recorded.nodes if node.sampled and node.message.agent == AGENT]
        self._ended = recorded.end if recorded.end in {End.DONE, End.TOKEN_LIMIT, End.TIME_LIMIT} else None
        self._last_word = bool(recorded.nodes) and recorded.nodes[-1].message.agent == AGENT

    async def open(self) -> UserTurn:
        """The task's prompt."""
        return UserTurn(text=self._prompt)

    async def reply(self, text: str) -> UserTurn:  # noqa: ARG002 - all is recorded
        """The next recorded message; the end of the rollout if the user ended it there."""
        if self._left:
            node = self._left.pop(0)
            usage = node.usage and msgspec.structs.replace(node.usage, usd=0.0)
            again = msgspec.structs.replace(node, parent=None, usage=usage, seconds=0.0)
            end = self._ended if self._last_word and not self._left else None
            return UserTurn(text=node.message.text, end=end, node=again)
        if self._ended is None or self._last_word:
            raise ModelError(
                f"the recorded user of `{self._task}` has no more messages, and the rollout goes on", kind="replay_over"
            )
        return UserTurn(end=self._ended)


class _ReplayColleague:
    """Repeats the recorded answers of one colleague, whatever it is asked."""

    def __init__(self, recorded: Trace, address: str) -> None:
        self._task, self._address = recorded.task, address
        found = (event.detail for event in recorded.events if event.kind == COLLEAGUE_ANSWERED)
        self._left = [str(detail["text"]) for detail in found if detail["colleague"] == address]

    async def open(self) -> UserTurn:
        """Nothing: a colleague does not begin."""
        return UserTurn()

    async def reply(self, text: str) -> UserTurn:  # noqa: ARG002 - all is recorded
        """The next recorded answer; empty where there was none."""
        if not self._left:
            raise ModelError(
                f"the recorded colleague `{self._address}` of `{self._task}` has no more answers, and is asked again",
                kind="replay_over",
            )
        return UserTurn(text=self._left.pop(0))


class _ReplayRole:
    """Repeats the recorded answers in the roles of a foreign program, whatever it asks."""

    def __init__(self, recorded: Trace) -> None:
        self._task = recorded.task
        self._left = [event.detail for event in recorded.events if event.kind == ROLE_ANSWERED]

    async def open(self) -> UserTurn:
        """Nothing: the program begins."""
        return UserTurn()

    async def reply(self, text: str) -> UserTurn:  # noqa: ARG002 - the program asks with whole conversations
        """The end: nobody speaks to it."""
        return UserTurn(end=End.DONE)

    async def answer(
        self,
        role: str,
        messages: Sequence[Message],  # noqa: ARG002 - all is recorded
        tools: Sequence[ToolSpec],  # noqa: ARG002 - as above
        *,
        scoring: bool = False,  # noqa: ARG002 - as above
    ) -> UserTurn:
        """The next recorded answer or end; `ModelError` if there is none, or it was given in another role."""
        if not self._left or self._left[0]["role"] != role:
            found = (
                f"the next recorded answer is of role `{self._left[0]['role']}`" if self._left else "there are no more answers"
            )
            raise ModelError(f"the role `{role}` of `{self._task}` is asked, and {found}", kind="replay_over")
        detail = self._left.pop(0)
        if detail["end"]:
            return UserTurn(end=End(detail["end"]))
        parts: list[Part] = [Text(detail["text"])] if detail["text"] else []
        parts += msgspec.convert(detail["calls"], list[ToolCall])
        usage = msgspec.convert(detail["usage"], Usage | None)
        node = Node(
            message=Message(role=Role.ASSISTANT, parts=tuple(parts)),
            sampled=True,
            usage=usage and msgspec.structs.replace(usage, usd=0.0),
            stop=detail["stop"],
            model=detail["model"],
        )
        return UserTurn(text=detail["text"], node=node)


def _replayed_node(node: Node, trace: Trace, leaf: int) -> Node:
    """A recorded node in the new trace, with its token counts and a cost of 0."""
    usage = node.usage and msgspec.structs.replace(node.usage, usd=0.0)
    start_s = max(0.0, SYSTEM_CLOCK.wall() - trace.started)
    return msgspec.structs.replace(node, parent=leaf, usage=usage, start_s=start_s, seconds=0.0)


def _differences(then: Sequence[Message], now: Sequence[Message]) -> list[Json]:
    """Differences of two lists of messages: results in order, the rest by text."""
    results = zip_longest(
        (result for message in then for result in message.results), (result for message in now for result in message.results)
    )
    different: list[Json] = [
        {"what": "result", "call": (was or got).call, "recorded": _cut(was and was.text), "now": _cut(got and got.text)}  # pyright: ignore[reportOptionalMemberAccess] - zip_longest fills one side only
        for was, got in results
        if was is None or got is None or _seen(was) != _seen(got)
    ]
    said_then, said_now = ("\n".join(message.text for message in messages if message.text) for messages in (then, now))
    if said_then != said_now:
        different.append({"what": "message", "recorded": _cut(said_then), "now": _cut(said_now)})
    return different


def _seen(result: ToolResult) -> tuple[str, bool, tuple[str, ...]]:
    return result.text, result.error, tuple(image.artifact for image in result.images)


def _cut(text: str | None) -> str | None:
    return text if text is None or len(text) <= _SHOWN_CHARS else text[:_SHOWN_CHARS] + "..."
