# pyright: reportMissingImports=false, reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUntypedBaseClass=false, reportUnknownParameterType=false
"""How a Gymnasium loop sees the messages of a rollout, and what its actions mean.

A view declares both spaces. `TextView` is the whole interface of an environment: every message, and every turn that a language
model could take. `DiscreteView` is a small window on it for classic algorithms: a list of turns, and a function that reads
numbers out of the text.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, cast

import msgspec
import numpy as np
from gymnasium import spaces

from sandlot.core.errors import ConfigError
from sandlot.core.trace import Part, Text, ToolCall
from sandlot.core.types import Json

MAX_CHARS = 2**24
"""Longest text of an observation or an action."""
_PRINTABLE = "".join(map(chr, range(32, 127)))
_SAMPLED_CHARS = 32
_SAMPLED_CALLS = 2

Turn = str | tuple[str, Json]
"""A turn of a declared list: a message, or a tool's name and its arguments."""


class AnyText(spaces.Text):
    """Every string up to a length; samples are short and printable. Gymnasium's `Text` knows only strings over an alphabet."""

    def __init__(self, max_length: int = MAX_CHARS, seed: int | np.random.Generator | None = None) -> None:
        super().__init__(_SAMPLED_CHARS, min_length=0, charset=_PRINTABLE, seed=cast("Any", seed))
        self.longest = max_length

    def contains(self, x: Any) -> bool:
        """True for a string that is not too long."""
        return isinstance(x, str) and len(x) <= self.longest

    def __repr__(self) -> str:
        return f"AnyText({self.longest})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, AnyText) and self.longest == other.longest

    __hash__ = None  # pyright: ignore[reportAssignmentType] - like every space


class GymView(Protocol):
    """The spaces of a loop, and the two functions between them and messages."""

    @property
    def observation_space(self) -> Any:
        """The space of `observe`."""
        ...

    @property
    def action_space(self) -> Any:
        """The space of actions."""
        ...

    def observe(self, text: str) -> Any:
        """The observation for the text of the messages since the agent's last turn."""
        ...

    def turn(self, action: Any) -> tuple[Part, ...]:
        """The assistant's message that an action stands for."""
        ...


@dataclass(frozen=True, slots=True)
class TextView:
    """Text in, text out. With tools, an action is a dictionary with `text` and `calls`, else a string.

    A call has the tool's `name` and its `arguments` as JSON. Arguments that are no JSON object reach the environment as a
    malformed call, as those of a model do.
    """

    tools: bool = True
    key: str | None = None
    """Observations are dictionaries with this key. PettingZoo needs it: its own test takes arrays and dictionaries only."""

    @property
    def observation_space(self) -> Any:
        """Any text."""
        return AnyText() if self.key is None else spaces.Dict({self.key: AnyText()})

    @property
    def action_space(self) -> Any:
        """A message; with tools, one with calls."""
        if not self.tools:
            return AnyText()
        call = spaces.Dict({"name": AnyText(), "arguments": AnyText()})
        return spaces.Dict({"text": AnyText(), "calls": spaces.Sequence(call)})

    def observe(self, text: str) -> Any:
        """The text."""
        return text if self.key is None else {self.key: text}

    def turn(self, action: Any) -> tuple[Part, ...]:
        """The text and the calls of an action."""
        if isinstance(action, str):
            return (Text(action),) if action else ()
        calls = [read_call(number, each["name"], each["arguments"]) for number, each in enumerate(action["calls"])]
        return (*((Text(action["text"]),) if action["text"] else ()), *calls)


def read_call(number: int, name: str, arguments: str) -> ToolCall:
    """A call with its arguments from JSON; what is no object is passed on as malformed."""
    try:
        return ToolCall(f"call_{number}", name, msgspec.json.decode(arguments or "{}", type=dict[str, Any]))
    except (msgspec.DecodeError, UnicodeEncodeError):
        return ToolCall(f"call_{number}", name, malformed=arguments)


class DiscreteView:
    """A numbered list of turns as actions, and numbers read out of the text as observations.

    - `turns`: what each action means: a message, or a tool's name and its arguments.
    - `observe`: reads the observation out of the text of the last messages.
    - `observation_space`: the space of what `observe` returns.
    """

    def __init__(self, turns: Sequence[Turn], *, observe: Callable[[str], Any], observation_space: Any) -> None:
        if not turns:
            raise ConfigError("a discrete view has no turns; list the messages or tool calls that the actions stand for")
        self._turns = [_parts(number, turn) for number, turn in enumerate(turns)]
        self._observe = observe
        self.observation_space = observation_space
        self.action_space = spaces.Discrete(len(turns))

    def observe(self, text: str) -> Any:
        """The numbers in the text; `ConfigError` if they are not in the declared space."""
        seen = self._observe(text)
        if seen not in self.observation_space:
            raise ConfigError(
                f"`observe` returned {seen!r}, which is not in {self.observation_space}, for the text {text[:200]!r}"
            )
        return seen

    def turn(self, action: Any) -> tuple[Part, ...]:
        """The turn with this number."""
        return self._turns[int(action)]


def _parts(number: int, turn: Any) -> tuple[Part, ...]:
    if isinstance(turn, str):
        return (Text(turn),) if turn else ()
    if isinstance(turn, tuple) and len(turn) == 2 and isinstance(turn[0], str) and isinstance(turn[1], Mapping):  # pyright: ignore[reportUnknownArgumentType] - an author's value
        return (ToolCall(f"action_{number}", turn[0], dict(cast("Mapping[str, Any]", turn[1]))),)
    raise ConfigError(f"turn {number} is {turn!r}; give a message, or a tool and its arguments: `('press', {{'key': 'a'}})`")
