"""Players: policies of a few lines that need no model, each a function of what is on the path.

The harmless ones are floors to compare with (`noop`, `echo`, `random`), the others fail in one known way each, so that every
failure can be seen to land in its class. No player keeps state: what it does follows from the trace and its seed, so a turn costs
microseconds and can be repeated.
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
"""What `flood` says."""
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
"""The bad calls `malformed` makes, one a turn, before it stops."""


@dataclass(frozen=True, slots=True)
class Move:
    """What a player does in a turn."""

    parts: tuple[Part, ...] = ()
    stop: str = "stop"


@dataclass(frozen=True, slots=True)
class PlayerView:
    """What a player sees."""

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
        """What the function says."""
        move = self.play(PlayerView(trace, leaf, tools, self.seed))
        return assistant_node(self.name, trace, leaf, move.parts, move.stop)


@dataclass(frozen=True, slots=True)
class Hanging:
    """`ports.Policy` that never answers."""

    async def turn(self, trace: Trace, leaf: int, tools: Sequence[ToolSpec]) -> Node:  # noqa: ARG002 - it looks at nothing
        """Wait for ever."""
        await anyio.sleep_forever()
        raise AssertionError("sleep_forever returned")


def assistant_node(model: str, trace: Trace, leaf: int, parts: tuple[Part, ...], stop: str = "stop") -> Node:
    """A sampled node below `leaf`, taken in no time."""
    if stop == "stop" and any(isinstance(part, ToolCall) for part in parts):
        stop = "calls"
    start_s = max(0.0, SYSTEM_CLOCK.wall() - trace.started)
    message = Message(role=Role.ASSISTANT, parts=parts)
    return Node(message=message, parent=leaf, sampled=True, stop=stop, model=model, start_s=start_s)


def messages_since_turn(trace: Trace, leaf: int) -> tuple[Message, ...]:
    """What others said to the agent since its last turn on this path."""
    messages: list[Message] = []
    index: int | None = leaf
    while index is not None and not trace.nodes[index].is_turn:
        if trace.nodes[index].message.role is not Role.ASSISTANT:  # a hook's intervention is the agent's own voice
            messages.append(trace.nodes[index].message)
        index = trace.nodes[index].parent
    return tuple(reversed(messages))


def constant(text: str) -> Play:
    """Says the same text every turn; the empty text is an empty message."""
    move = Move((Text(text),) if text else ())
    return lambda _: move


def refuse(_: PlayerView) -> Move:
    """Will not."""
    return Move((Text(REFUSAL),), "refusal")


def echo(moment: PlayerView) -> Move:
    """Repeats what it was last told."""
    said = next(
        (message.text for message in reversed(messages_since_turn(moment.trace, moment.leaf)) if message.role is Role.USER), ""
    )
    return Move((Text(said),) if said else ())


def random_calls(moment: PlayerView) -> Move:
    """Calls random tools with random arguments that fit their schemas, for a few turns."""
    num_turns = 1 + derive_seed("random", moment.seed) % _MAX_RANDOM_TURNS
    if moment.turn >= num_turns or not moment.tools:
        return Move()
    rng = Random(derive_seed("random", moment.seed, moment.turn))  # noqa: S311 - a seeded player, not a secret
    tool = rng.choice(moment.tools)
    return Move((ToolCall(f"random_{moment.turn}", tool.name, random_arguments(tool.parameters, rng)),))


def loop(moment: PlayerView) -> Move:
    """Calls the first tool for ever; without tools it talks for ever."""
    if not moment.tools:
        return Move((Text("again"),))
    tool = moment.tools[0]
    return Move((ToolCall(f"loop_{moment.turn}", tool.name, random_arguments(tool.parameters, Random(0))),))  # noqa: S311 - as above


def malformed(moment: PlayerView) -> Move:
    """Makes every bad call of `MALFORMED`, then stops."""
    if moment.turn >= len(MALFORMED):
        return Move()
    tool = moment.tools[0].name if moment.tools else "nothing"
    return Move((MALFORMED[moment.turn](f"bad_{moment.turn}", tool),))


def flood(_: PlayerView) -> Move:
    """Says far too much."""
    return Move((Text("flood " * (FLOOD_CHARS // 6)),))


def crash(_: PlayerView) -> Move:
    """Fails as an engine does that dies."""
    raise ModelError("scripted:crash raised, as it was asked to", kind="crash")
