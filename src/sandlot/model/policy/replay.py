"""Replay: what was sampled before is said again, turn by turn, while the tools run live.

Up to turn `until` the recorded messages are played; then another policy takes over, or the recording simply ends. Whatever the
world answers differently this time is recorded as an event, `replay_diverged`, at the turn that saw it: a replay never
pretends to be the same when it is not.
"""

from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from dataclasses import dataclass
from itertools import zip_longest

import msgspec

from sandlot.core.concurrency.clock import SYSTEM_CLOCK
from sandlot.core.errors import ModelError
from sandlot.core.persona import AGENT, Persona
from sandlot.core.ports.session import Policies, Policy, User, Users, UserTurn
from sandlot.core.ports.world import ToolSpec
from sandlot.core.task import Task
from sandlot.core.trace import Event, Message, Node, Trace
from sandlot.core.types import End, Json
from sandlot.model.policy.player import messages_since_turn

_SHOWN_CHARS = 400
"""What an event shows of each side of a difference."""

FindTrace = Callable[[str, int], Trace | None]
"""The recorded trace of a task's rollout; None if there is none."""


def replay_policies(
    traces: FindTrace, until: int | None = None, then: Policies | None = None, *, name: str = "replay"
) -> Policies:
    """Policies that replay the first `until` turns (None: all there are) of a recorded trace, then go on with `then`."""
    return _ReplayPolicies(name if then is None else f"{name}+{then.name}", traces, until, then)


@dataclass(frozen=True, slots=True)
class _ReplayPolicies:
    """`ports.Policies` over recorded traces."""

    name: str
    traces: FindTrace
    until: int | None
    then: Policies | None

    def policy(self, task: Task, seed: int, rollout: int = 0) -> AbstractAsyncContextManager[Policy]:
        """A policy over the trace recorded for this rollout."""
        return self._open(task, seed, rollout)

    @asynccontextmanager
    async def _open(self, task: Task, seed: int, rollout: int) -> AsyncGenerator[Policy]:
        recorded = self.traces(task.id, rollout)
        if recorded is None:
            raise ModelError(
                f"rollout {rollout} of task `{task.id}` was not recorded, so it cannot be replayed", kind="not_found"
            )
        if self.then is None:
            yield _ReplayPolicy(recorded, self.until, None)
            return
        async with self.then.policy(task, seed, rollout) as then:
            yield _ReplayPolicy(recorded, self.until, then)


class _ReplayPolicy:
    """Says what was said, and compares what is heard."""

    def __init__(self, recorded: Trace, until: int | None, then: Policy | None) -> None:
        self._recorded = recorded
        self._turns = [index for index, node in enumerate(recorded.nodes) if node.is_turn]
        self._num_turns = len(self._turns) if until is None else min(until, len(self._turns))
        self._then = then
        self._next = 0
        self._handed_over = False

    async def turn(self, trace: Trace, leaf: int, tools: Sequence[ToolSpec]) -> Node:
        """The recorded turn, or the next policy's once they are over."""
        if not self._handed_over:
            self._compare(trace, leaf)
            if self._next < self._num_turns:
                node = self._recorded.nodes[self._turns[self._next]]
                self._next += 1
                return _replayed_node(node, trace, leaf)
            self._handed_over = True
        if self._then is None:
            raise ModelError(
                f"the replay of `{self._recorded.task}` is over after {self._num_turns} turns and the rollout goes on; "
                "name a model to continue with",
                kind="replay_over",
            )
        return await self._then.turn(trace, leaf, tools)

    def _compare(self, trace: Trace, leaf: int) -> None:
        """What was heard before this turn, then and now."""
        if self._next >= len(self._turns):
            return
        before = self._recorded.nodes[self._turns[self._next]].parent
        then = messages_since_turn(self._recorded, before) if before is not None else ()
        for detail in _differences(then, messages_since_turn(trace, leaf)):
            trace.events.append(Event(kind="replay_diverged", turn=trace.num_turns, detail=detail))


def replay_users(traces: FindTrace, *, name: str = "replay") -> Users:
    """Users that say again what a user said in a recorded trace."""
    return _ReplayUsers(name, traces)


@dataclass(frozen=True, slots=True)
class _ReplayUsers:
    """`ports.Users` over recorded traces."""

    name: str
    traces: FindTrace

    def user(self, persona: Persona, task: Task, seed: int, rollout: int = 0) -> AbstractAsyncContextManager[User]:  # noqa: ARG002 - it was all settled then
        """The user of the trace recorded for this rollout."""
        recorded = self.traces(task.id, rollout)
        if recorded is None:
            raise ModelError(f"rollout {rollout} of task `{task.id}` was not recorded, so its user cannot be", kind="not_found")
        return nullcontext(_ReplayUser(recorded, task.prompt))


class _ReplayUser:
    """Says what the user said, whatever the agent says."""

    def __init__(self, recorded: Trace, prompt: str) -> None:
        self._prompt = prompt
        self._task = recorded.task
        self._left = [node for node in recorded.nodes if node.sampled and node.message.agent == AGENT]
        self._ended = recorded.end if recorded.end in {End.DONE, End.TOKEN_LIMIT, End.TIME_LIMIT} else None
        self._last_word = bool(recorded.nodes) and recorded.nodes[-1].message.agent == AGENT

    async def open(self) -> UserTurn:
        """The task's prompt."""
        return UserTurn(text=self._prompt)

    async def reply(self, text: str) -> UserTurn:  # noqa: ARG002 - it was settled then
        """The next thing it said; the end of the recording is its own end, if the user had brought it about."""
        if self._left:
            node = self._left.pop(0)
            usage = node.usage and msgspec.structs.replace(node.usage, usd=0.0)
            again = msgspec.structs.replace(node, parent=None, usage=usage, seconds=0.0)
            end = self._ended if self._last_word and not self._left else None
            return UserTurn(text=node.message.text, end=end, node=again)
        if self._ended is None or self._last_word:
            raise ModelError(
                f"the user of `{self._task}` has said all that was recorded and the rollout goes on", kind="replay_over"
            )
        return UserTurn(end=self._ended)


def _replayed_node(node: Node, trace: Trace, leaf: int) -> Node:
    """A recorded node at its new place; it cost nothing this time, but counts the tokens it counted then."""
    usage = node.usage and msgspec.structs.replace(node.usage, usd=0.0)
    start_s = max(0.0, SYSTEM_CLOCK.wall() - trace.started)
    return msgspec.structs.replace(node, parent=leaf, usage=usage, start_s=start_s, seconds=0.0)


def _differences(then: Sequence[Message], now: Sequence[Message]) -> list[Json]:
    """Where two answers differ: results by order, everything else by its text."""
    results = zip_longest(
        (result for message in then for result in message.results), (result for message in now for result in message.results)
    )
    different: list[Json] = [
        {"what": "result", "call": (was or got).call, "recorded": _cut(was and was.text), "now": _cut(got and got.text)}  # pyright: ignore[reportOptionalMemberAccess] - zip_longest fills one side only
        for was, got in results
        if was is None or got is None or (was.text, was.error) != (got.text, got.error)
    ]
    said_then, said_now = ("\n".join(message.text for message in messages if message.text) for messages in (then, now))
    if said_then != said_now:
        different.append({"what": "message", "recorded": _cut(said_then), "now": _cut(said_now)})
    return different


def _cut(text: str | None) -> str | None:
    return text if text is None or len(text) <= _SHOWN_CHARS else text[:_SHOWN_CHARS] + "..."
