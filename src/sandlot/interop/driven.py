"""Rollouts that a foreign trainer drives: it samples, and passes in one tool call or message after the other.

The rollout is an ordinary one whose policy waits for the trainer's next move. Limits, constraints, evidence and grades are the
same, and it is stored like any other; only the tokens stay with the trainer and are not in the trace.
"""

import inspect
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import Future
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, cast

import anyio
from anyio.from_thread import BlockingPortal
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream

from sandlot.core.concurrency.clock import deadline, pause_limits
from sandlot.core.errors import ConfigError, HarnessError, ModelError
from sandlot.core.ports.session import Policy
from sandlot.core.ports.world import ToolSpec
from sandlot.core.task import Task
from sandlot.core.trace import Message, Node, Part, Text, ToolCall, Trace
from sandlot.core.types import Json
from sandlot.model.policy.player import assistant_node, messages_since_turn

_PATIENCE_S = 3600.0
"""Maximum time until the trainer's next move. A trainer drives many rollouts in turn: it is not the agent's time."""
OVER = "The task is over; nothing more can be done."

_RESERVED = ("reset", "get_reward")
_TYPES: dict[str, Any] = {"string": str, "integer": int, "number": float, "boolean": bool, "array": list, "object": dict}


@dataclass(frozen=True, slots=True)
class PendingTurn:
    """A rollout waits for the next message of one seat."""

    seat: str
    messages: tuple[Message, ...]
    """The messages to the seat since its last turn."""
    tools: tuple[ToolSpec, ...]


@dataclass(frozen=True, slots=True)
class DrivenSeat:
    """`ports.Policies`, and the policy itself, of one party of a rollout: the agent, or the user."""

    name: str
    seat: str
    asks: MemoryObjectSendStream[PendingTurn]
    to_move: MemoryObjectReceiveStream[tuple[Part, ...]]

    def policy(self, task: Task, seed: int, rollout: int = 0) -> AbstractAsyncContextManager[Policy]:  # noqa: ARG002 - the port's
        """The seat itself."""
        return nullcontext(self)

    async def turn(self, trace: Trace, leaf: int, tools: Sequence[ToolSpec]) -> Node:
        """Pass on the environment's messages, and wait for the next move."""
        with pause_limits(), deadline(_PATIENCE_S, ModelError, "the trainer's next move"):
            await self.asks.send(PendingTurn(self.seat, messages_since_turn(trace, leaf), tuple(tools)))
            return assistant_node(self.name, trace, leaf, await self.to_move.receive())


class DrivenRollout:
    """One rollout in progress. `play` runs it with policies from `seat`; one seat at a time is asked for a turn."""

    def __init__(
        self, portal: BlockingPortal, play: Callable[["DrivenRollout"], Coroutine[Any, Any, Trace]], name: str = "trl"
    ) -> None:
        self._portal = portal
        self._name = name
        self._moves, self._to_move = anyio.create_memory_object_stream[tuple[Part, ...]](1)
        self._asks, self._asked = anyio.create_memory_object_stream[PendingTurn](1)
        self._num_calls = 0
        self._future: Future[Trace] = portal.start_task_soon(self._play, play)

    async def _play(self, play: Callable[["DrivenRollout"], Coroutine[Any, Any, Trace]]) -> Trace:
        with self._asks, self._to_move:
            return await play(self)

    def seat(self, seat: str = "agent") -> DrivenSeat:
        """The policies of one party of the rollout."""
        return DrivenSeat(self._name, seat, self._asks, self._to_move)

    # -- for the trainer's thread --------------------------------------------------------------------------------------

    def opening(self) -> PendingTurn | None:
        """The first turn that the rollout waits for; None if it is over before that. Call it once, before `move`."""
        return self._portal.call(self._receive)

    def move(self, parts: tuple[Part, ...]) -> PendingTurn | None:
        """Make a move; returns the next turn that the rollout waits for, or None if it is over."""
        return self._portal.call(self._hand_in, parts)

    def call(self, tool: str, arguments: Json) -> str:
        """Make one tool call and return its result. The trainer has the first messages from its data set."""
        if not self._num_calls:
            self.opening()
        self._num_calls += 1
        back = self.move((ToolCall(f"call{self._num_calls}", tool, arguments),))
        return OVER if back is None else "\n".join(result.text for message in back.messages for result in message.results)

    async def _receive(self) -> PendingTurn | None:
        try:
            return await self._asked.receive()
        except anyio.EndOfStream:
            return None

    async def _hand_in(self, parts: tuple[Part, ...]) -> PendingTurn | None:
        try:
            await self._moves.send(parts)
        except anyio.BrokenResourceError:
            return None
        return await self._receive()

    async def finish(self, words: str) -> None:
        """Send the last message, if the rollout is not over."""
        with self._moves, self._asked:
            if not self._num_calls and await self._receive() is None:
                return
            if await self._hand_in((Text(words),) if words else ()) is not None:
                self._future.cancel()  # the environment replied, but the trainer has ended

    @property
    def over(self) -> bool:
        """True if the rollout has ended."""
        return self._future.done()

    def trace(self) -> Trace:
        """The trace of the finished rollout."""
        if self._future.cancelled():
            raise HarnessError(
                "the environment continues after the trainer's last message; give the trainer `rollout_func` instead"
            )
        return self._future.result()

    def drop(self) -> None:
        """Cancel the rollout, if it is not over."""
        self._future.cancel()
        self._portal.call(self._moves.close)
        self._portal.call(self._asked.close)


def environment_class(name: str, tools: Sequence[ToolSpec], begin: Callable[[str], DrivenRollout]) -> type:
    """A class for TRL's `environment_factory`: `reset(task=...)`, and a method for every tool."""
    wrong = [tool.name for tool in tools if not tool.name.isidentifier() or tool.name.startswith("_") or tool.name in _RESERVED]
    if wrong:
        raise ConfigError(f"tool `{wrong[0]}` cannot be a method of TRL's environment; give the trainer `rollout_func` instead")

    def reset(self: Any, *, task: str, **_: Any) -> None:
        if self.handed is not None:
            self.handed.drop()
        self.handed = begin(task)

    members = {"handed": None, "reset": reset, **{tool.name: _method(tool) for tool in tools}}
    return type(name.title().replace("-", ""), (), members)


def _method(tool: ToolSpec) -> Callable[..., str]:
    """A function with the tool's schema in its signature and docstring, which is all that TRL reads."""
    properties = cast("Json", tool.parameters.get("properties") or {})
    required = cast("list[str]", tool.parameters.get("required") or [])

    def call(self: Any, **arguments: Any) -> str:
        return self.handed.call(tool.name, arguments)

    types = {key: _TYPES.get(str(schema.get("type")), str) for key, schema in properties.items()}
    kind = inspect.Parameter
    parameters = [
        kind(key, kind.KEYWORD_ONLY, annotation=types[key], default=kind.empty if key in required else None) for key in types
    ]
    call.__name__ = tool.name
    call.__annotations__ = {**types, "return": str}
    cast("Any", call).__signature__ = inspect.Signature([kind("self", kind.POSITIONAL_ONLY), *parameters], return_annotation=str)
    told = [f"    {key}: {schema.get('description') or key}" for key, schema in properties.items()]
    call.__doc__ = "\n".join([tool.description or tool.name, *(["", "Args:", *told] if told else [])])
    return call
