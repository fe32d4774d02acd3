"""Limits of a rollout, rules about tool calls, and actions that wait for a person.

An agent that reaches `turns`, `tokens` or `time_s` is stopped and graded. The other deadlines belong to the environment and the
graders: passing one is a failure of that side, and there is no reward.
"""

import re
from enum import StrEnum

import msgspec

from sandlot.core.errors import ConfigError
from sandlot.core.types import Json


class Limits(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Budgets and deadlines of one rollout. A task may override any of them.

    Reaching `turns`, `tokens` or `time_s` ends the rollout, and it is graded. Passing one of the other deadlines is a failure of
    the environment or the grader: the rollout then has no reward. `ConfigError` for a limit that is not positive and finite.

    ```python
    from sandlot import Environment, Limits, Task

    env = Environment("short", limits=Limits(turns=4, time_s=60))
    assert env.limits.but({"turns": 2}).turns == 2  # what `Task(..., limits={"turns": 2})` does
    ```
    """

    turns: int = 16
    """Turns the agent may take."""
    tokens: int | None = None
    """Tokens the agent may sample in one rollout; None for no limit."""
    time_s: float = 600.0
    """Seconds for model and tools together. Queueing and retries do not count."""
    tool_s: float = 60.0
    """Seconds for one tool call. A call that takes longer returns an error to the agent."""
    tool_output_chars: int = 16_000
    """Characters of one tool result that the agent sees. A longer result loses its middle; the whole is stored."""
    rollout_output_bytes: int = 64 * 2**20
    """Bytes of all tool results of a rollout together. What exceeds it is cut, and the agent sees a notice."""
    provision_s: float = 60.0
    """Seconds for opening the sandbox and the tools."""
    setup_s: float = 60.0
    """Seconds for the environment's setup."""
    grade_s: float = 120.0
    """Seconds for all checks together, judge calls included."""
    teardown_s: float = 30.0
    """Seconds for closing the world."""
    evidence_bytes: int = 64 * 2**20
    """Bytes of the agent's files that are stored for grading."""
    evidence_files: int = 20_000
    """Paths recorded of the agent's files, besides the files from setup. Folders with very many files come last."""

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            value = getattr(self, name)
            if value is not None and not 0 < value < float("inf"):
                raise ConfigError(f"limit `{name}` is {value!r}; give a positive, finite number")

    def but(self, overrides: Json) -> "Limits":
        """A copy with some limits replaced. `ConfigError` for unknown names and wrong types."""
        if not overrides:
            return self
        try:
            return msgspec.convert(msgspec.to_builtins(self) | overrides, Limits)
        except msgspec.ValidationError as error:
            raise ConfigError(f"limits {overrides!r}: {error}; limits: {', '.join(self.__struct_fields__)}") from error


class OnBreach(StrEnum):
    """What happens when a call breaks a constraint."""

    REFUSE = "refuse"  # the call is not made; the agent sees why
    PENALTY = "penalty"  # the call is made; the score loses `points`
    END = "end"  # the call is not made; the rollout ends and is graded


class Constraint(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A rule about tool calls: a budget (`at_most` > 0) or a forbidden call (`at_most` = 0).

    Rules are checked on every call. A rule about `bash` sees only the text of the command, and a shell can express one command in
    many ways: use rules for budgets and mistakes, not as a security boundary. `ConfigError` if a field is wrong.

    ```python
    from sandlot import Constraint, Environment

    env = Environment("shop", constraints=[Constraint(id="one-refund", tool="refund", at_most=1, on_breach="end")])
    assert env.constraints[0].describe() == "`refund` may be called at most 1 times"
    ```
    """

    id: str
    """The rule's name in traces and scores."""
    tool: str
    """The tool the rule is about; `*` for any."""
    where: dict[str, str] = {}
    """Argument name -> regular expression. The rule applies to calls in which every expression is found."""
    at_most: int = 0
    """Calls allowed: 0 forbids them."""
    on_breach: OnBreach = OnBreach.REFUSE
    """`refuse`: the call is not made; `penalty`: it is made and costs `points`; `end`: it is not made and the rollout ends."""
    points: float = 0.0
    """What a `penalty` takes away per breach, as a positive number of points."""

    def __post_init__(self) -> None:
        try:
            msgspec.structs.force_setattr(self, "on_breach", OnBreach(self.on_breach))  # authors write a string
        except ValueError as error:
            raise ConfigError(f"constraint `{self.id}`: on_breach is {self.on_breach!r}; use {', '.join(OnBreach)}") from error
        for name, pattern in self.where.items():
            try:
                re.compile(pattern)
            except re.error as error:
                raise ConfigError(
                    f"constraint `{self.id}`: `where.{name}` is not a regular expression: {pattern!r}: {error}"
                ) from error
        if self.at_most < 0 or not 0 <= self.points < float("inf"):
            raise ConfigError(f"constraint `{self.id}`: at_most={self.at_most}, points={self.points}; give numbers from 0 up")
        if self.on_breach is OnBreach.PENALTY and not self.points:
            raise ConfigError(f"constraint `{self.id}`: a penalty of 0 points; give `points` above 0")

    def describe(self) -> str:
        """The rule in words, as the agent sees it."""
        what = f"`{self.tool}`" if self.tool != "*" else "any tool"
        condition = "".join(f" with {name} matching /{pattern}/" for name, pattern in self.where.items())
        return f"{what}{condition} " + ("is forbidden" if self.at_most == 0 else f"may be called at most {self.at_most} times")


LONGEST_WAIT_S = 3000.0
"""The longest time that an action may wait for a person."""


class PlannedCall(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A tool call that has not been made yet."""

    name: str
    """Name of the tool."""
    arguments: Json = {}
    """Its arguments, as a JSON object."""


class Hold(msgspec.Struct, frozen=True, kw_only=True):
    """Turns that call one of these tools wait for a person, in a run that has one (`--approve`)."""

    tools: tuple[str, ...]
    """Names of the tools."""
    wait_s: float = 300.0
    """How long a turn waits for an answer."""
    safe: PlannedCall | None = None
    """The call to make instead if there is no answer in time, or the person refuses; None: the rollout stops."""
