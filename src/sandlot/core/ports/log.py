"""The interface of log readers: they read runs that another framework recorded."""

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol

from sandlot.core.ports.world import ToolSpec
from sandlot.core.trace import Trace
from sandlot.core.types import Json


@dataclass(frozen=True, slots=True, kw_only=True)
class LoggedRollout:
    """One rollout of a log."""

    trace: Trace
    """Finished; its `run` is set when it is stored."""
    blobs: tuple[bytes, ...] = ()
    """The bytes of the artifacts that the trace names by their SHA-256."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoggedRun:
    """A run that another framework recorded."""

    environment: str
    """The name of what was run."""
    model: str
    version: Json
    """What must be equal for two logs to be of the same tasks: name, version, arguments, data set."""
    setting: Json
    """What else must be equal for two logs to be comparable: solver, limits."""
    num_rollouts: int
    """How many were planned."""
    created: float
    """Seconds since the epoch."""
    machine: Json
    """What the log says of the software that made it."""
    rollouts: Iterator[LoggedRollout]
    """Read one after the other, and only once."""
    tools: tuple[ToolSpec, ...] = ()
    notes: Sequence[str] = ()
    """What is different from the log. It is complete when all rollouts were read."""
    seconds: float = 0.0
    """How long the run took."""


class LogReader(Protocol):
    """Reads logs of one kind. Registered in the entry point group `sandlot.log_readers`.

    The name of the entry point is the kind: `sandlot import KIND FILE` stores the rollouts as a run. The log is untrusted:
    `ConfigError` says what is wrong with it, and nothing of it may be executed or unpickled. A rollout that failed there is a
    failure here, and never a reward of 0.
    """

    @property
    def kind(self) -> str:
        """The name of the entry point."""
        ...

    def open(self, source: str) -> AbstractContextManager[LoggedRun]:
        """Open a log for reading; `ConfigError` if it is none."""
        ...
