"""Rollouts that a foreign trainer drives: it samples, and passes in one tool call or message after the other.

The rollout is an ordinary one whose policy waits for the trainer's next move. Limits, constraints, evidence and grades are the
same, and it is stored like any other; only the tokens stay with the trainer and are not in the trace.
"""

import inspect
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import AbstractAsyncContextManager, nullcontext
from typing import Any, cast

import anyio
import anyio.from_thread

from sandlot.core.concurrency.clock import deadline, pause_limits
from sandlot.core.errors import ConfigError, HarnessError, ModelError
from sandlot.core.ports.session import Policy
from sandlot.core.ports.world import ToolSpec
from sandlot.core.task import Task
from sandlot.core.trace import Message, Node, Part, Text, ToolCall, Trace
from sandlot.core.types import Json
from sandlot.interop.stage import Stage
from sandlot.model.policy.player import assistant_node, messages_since_turn

_PATIENCE_S = 3600.0
"""Maximum time until the trainer's next move. A trainer drives many rollouts in turn: it is not the agent's time."""
OVER = "The task is over; nothing more can be done."

_RESERVED = ("reset", "get_reward")
_TYPES: dict[str, Any] = {"string": str, "integer": int, "number": float, "boolean": bool, "array": list, "object": dict}


class DrivenRollout:
    """One rollout in progress; it is its own `Policies`."""

    name = "trl"

    def __init__(self, portal: anyio.from_thread.BlockingPortal, stage: Stage, task: str) -> None:
        self._portal = portal
        self._moves, self._to_move = anyio.create_memory_object_stream[tuple[Part, ...]](1)
        self._asks, self._asked = anyio.create_memory_object_stream[tuple[Message, ...]](1)
        self._num_calls = 0
        self._future: Future[Trace] = portal.start_task_soon(self._play, stage, task)

    async def _play(self, stage: Stage, task: str) -> Trace:
        with self._asks, self._to_move:
            # One attempt: a second one would not continue the trainer's rollout.
            return (await stage.play([(task, self)], attempts=1))[0]

    def policy(self, task: Task, seed: int, rollout: int = 0) -> AbstractAsyncContextManager[Policy]:  # noqa: ARG002 - the port's
        """The rollout itself."""
        return nullcontext(self)

    async def turn(self, trace: Trace, leaf: int, tools: Sequence[ToolSpec]) -> Node:  # noqa: ARG002 - the trainer knows them
        """Pass on the environment's messages, and wait for the next move."""
        with pause_limits(), deadline(_PATIENCE_S, ModelError, "the trainer's next move"):
            await self._asks.send(messages_since_turn(trace, leaf))
            return assistant_node(self.name, trace, leaf, await self._to_move.receive())

    # -- for the trainer's thread --------------------------------------------------------------------------------------

    def call(self, tool: str, arguments: Json) -> str:
        """Make one tool call and return its result."""
        self._num_calls += 1
        back = self._portal.call(self._hand_in, (ToolCall(f"call{self._num_calls}", tool, arguments),))
        return OVER if back is None else "\n".join(result.text for message in back for result in message.results)

    async def _hand_in(self, parts: tuple[Part, ...]) -> tuple[Message, ...] | None:
        """Make a move; returns the environment's messages, or None if the rollout is over."""
        try:
            if self._num_calls <= 1:
                await self._asked.receive()  # the first messages, which the trainer has from its dataset
            await self._moves.send(parts)
            return await self._asked.receive()
        except (anyio.EndOfStream, anyio.BrokenResourceError):
            return None

    async def finish(self, words: str) -> None:
        """Send the last message, if the rollout is not over."""
        with self._moves, self._asked:
            try:
                if not self._num_calls:
                    await self._asked.receive()
                await self._moves.send((Text(words),) if words else ())
                await self._asked.receive()
            except (anyio.EndOfStream, anyio.BrokenResourceError):
                return
            self._future.cancel()  # the environment replied, but the trainer has ended

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
