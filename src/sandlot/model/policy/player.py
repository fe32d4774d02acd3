"""Players: short policies without a model, each a function of the trace.

`noop`, `echo` and `random` are baselines. The others fail in one known way each, to test that every failure is classified
correctly. No player keeps state: a turn depends only on the trace and the seed, costs microseconds and can be repeated.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random

import anyio

from sandlot.core.concurrency.clock import SYSTEM_CLOCK
from sandlot.core.errors import ModelError
from sandlot.core.ports.world import ToolSpec
from sandlot.core.trace import Message, Node, Part, Text, ToolCall, Trace
from sandlot.core.types import Role, derive_seed
from sandlot.model.policy.random_calls import random_arguments

FLOOD_CHARS = 4 * 2**20
"""Length of a message of `flood`."""
_MAX_RANDOM_TURNS = 6
REFUSAL = "I cannot help with that."

MALFORMED: tuple[Callable[[str, str], ToolCall], ...] = (
    lambda call, tool: ToolCall(call, tool, malformed="{not json"),
    lambda call, tool: ToolCall(call, tool, malformed="[1, 2]"),
    lambda call, tool: ToolCall(call, tool, malformed="x" * 4000),
    lambda call, tool: ToolCall(call, f"{tool}_that_is_not_there"),
    lambda call, _: ToolCall(call, ""),
    lambda call, tool: ToolCall(call, tool, {"no_such_argument": None, "": [[[]]]}),
)
"""The bad calls that `malformed` makes, one per turn."""


@dataclass(frozen=True, slots=True)
class Move:
    """A player's turn."""

    parts: tuple[Part, ...] = ()
    stop: str = "stop"


@dataclass(frozen=True, slots=True)
class PlayerView:
    """The input of a player."""

    trace: Trace
    leaf: int
    tools: Sequence[ToolSpec]
    seed: int

    @property
    def turn(self) -> int:
        """The number of the turn, from 0."""
        return self.trace.num_turns


Play = Callable[[PlayerView], Move]


@dataclass(frozen=True, slots=True)
class Player:
    """`ports.Policy` around one function."""

    name: str
    play: Play
    seed: int

    async def turn(self, trace: Trace, leaf: int, tools: Sequence[ToolSpec]) -> Node:
        """The turn that the function returns."""
        move = self.play(PlayerView(trace, leaf, tools, self.seed))
        return assistant_node(self.name, trace, leaf, move.parts, move.stop)


@dataclass(frozen=True, slots=True)
class Hanging:
    """`ports.Policy` that never answers."""

    async def turn(self, trace: Trace, leaf: int, tools: Sequence[ToolSpec]) -> Node:  # noqa: ARG002 - it uses none of them
        """Wait forever."""
        await anyio.sleep_forever()
        raise AssertionError("sleep_forever returned")


def assistant_node(model: str, trace: Trace, leaf: int, parts: tuple[Part, ...], stop: str = "stop") -> Node:
    """A sampled node below `leaf` with a duration of zero."""
    if stop == "stop" and any(isinstance(part, ToolCall) for part in parts):
        stop = "calls"
    start_s = max(0.0, SYSTEM_CLOCK.wall() - trace.started)
    message = Message(role=Role.ASSISTANT, parts=parts)
    return Node(message=message, parent=leaf, sampled=True, stop=stop, model=model, start_s=start_s)


def messages_since_turn(trace: Trace, leaf: int) -> tuple[Message, ...]:
    """The messages to the agent since its last turn on this path."""
    messages: list[Message] = []
    index: int | None = leaf
    while index is not None and not trace.nodes[index].is_turn:
        if trace.nodes[index].message.role is not Role.ASSISTANT:  # a hook may add assistant messages
            messages.append(trace.nodes[index].message)
        index = trace.nodes[index].parent
    return tuple(reversed(messages))


def constant(text: str) -> Play:
    """Sends the same text every turn; an empty text is an empty message."""
    move = Move((Text(text),) if text else ())
    return lambda _: move


def refuse(_: PlayerView) -> Move:
    """Refuses."""
    return Move((Text(REFUSAL),), "refusal")


def echo(view: PlayerView) -> Move:
    """Repeats the last user message."""
    said = next(
        (message.text for message in reversed(messages_since_turn(view.trace, view.leaf)) if message.role is Role.USER), ""
    )
    return Move((Text(said),) if said else ())


def random_calls(view: PlayerView) -> Move:
    """Calls random tools with random arguments that match their schemas, for a few turns."""
    num_turns = 1 + derive_seed("random", view.seed) % _MAX_RANDOM_TURNS
    if view.turn >= num_turns or not view.tools:
        return Move()
    rng = Random(derive_seed("random", view.seed, view.turn))  # noqa: S311 - a seeded player, not a secret
    tool = rng.choice(view.tools)
    return Move((ToolCall(f"random_{view.turn}", tool.name, random_arguments(tool.parameters, rng)),))


def loop(view: PlayerView) -> Move:
    """Calls the first tool forever; without tools it writes text forever."""
    if not view.tools:
        return Move((Text("again"),))
    tool = view.tools[0]
    return Move((ToolCall(f"loop_{view.turn}", tool.name, random_arguments(tool.parameters, Random(0))),))  # noqa: S311 - as above


def malformed(view: PlayerView) -> Move:
    """Makes every bad call of `MALFORMED`, then stops."""
    if view.turn >= len(MALFORMED):
        return Move()
    tool = view.tools[0].name if view.tools else "nothing"
    return Move((MALFORMED[view.turn](f"bad_{view.turn}", tool),))


def flood(_: PlayerView) -> Move:
    """Sends a message of 4 MiB."""
    return Move((Text("flood " * (FLOOD_CHARS // 6)),))


def crash(_: PlayerView) -> Move:
    """Fails like an engine that crashed."""
    raise ModelError("scripted:crash raised, as it always does", kind="crash")
