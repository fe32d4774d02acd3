"""The seam between a run and the place where its rollouts are taken: `--on local`, `processes:8`, `ray`, `workers:HOST:PORT`.

The collector decides which rollout is next, tries again, stores and counts. An executor takes one attempt at one rollout. Each
implementation must pass `tests/contract/test_executor_contract.py`.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

from sandlot.core.ports.store import Blobs
from sandlot.core.task import Task
from sandlot.core.trace import Trace
from sandlot.env.environment import Environment
from sandlot.observe.events import Sink
from sandlot.rollout import run_rollout
from sandlot.run.config import RunConfig
from sandlot.wiring.parts import RolloutParts, grade_at_once


@dataclass(frozen=True, slots=True)
class WorkerLost:
    """Whoever took the rollout ended before the rollout did. Nothing of it is known, so it may be taken again."""

    reason: str
    seconds: float
    """How long the rollout had gone on."""
    returned: bool = False
    """True if the worker left in order and gave the rollout back: it did not die of it."""


@dataclass(frozen=True, slots=True)
class ExecutorLoad:
    """How many workers there are, and whether more would help."""

    num_workers: int
    num_waiting: int
    """Rollouts that could start if there were a worker with room."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutorPlan:
    """The run that an executor is opened for."""

    env: Environment
    config: RunConfig
    fingerprint: str
    """Of the environment: a worker that finds another one refuses."""
    cache: Path
    """Folder for a judge's verdicts."""
    stop: Callable[[str], None]
    """Ends the run as bad, with a reason."""


class Executor(Protocol):
    """Takes rollouts."""

    @property
    def load(self) -> ExecutorLoad | None:
        """How it stands now; None if it has no workers."""
        ...

    async def run(
        self,
        task: Task,
        rollout: int,
        *,
        run: str,
        blobs: Blobs,
        sink: Sink,
        alone: bool = False,
        wait_for_grading: Callable[[], Awaitable[None]] = grade_at_once,
    ) -> Trace | WorkerLost:
        """One attempt at a rollout of the run with this name.

        `wait_for_grading` is awaited when the agent has ended, the evidence is stored and the world is closed; grading begins
        when it returns. It is not awaited if the rollout fails before.

        When it returns a trace, everything the trace refers to is in `blobs`, and its events were sent to `sink`. A failed
        rollout does not raise: its trace says what failed. If this is cancelled, the rollout's world is closed. With `alone`, its
        worker takes no other rollout meanwhile: if that worker dies, the rollout killed it.
        """
        ...


@dataclass(frozen=True, slots=True)
class LocalExecutor:
    """Takes rollouts in this process, in one event loop, with open parts."""

    parts: RolloutParts

    @property
    def load(self) -> None:
        """There are no workers."""
        return

    async def run(
        self,
        task: Task,
        rollout: int,
        *,
        run: str,
        blobs: Blobs,
        sink: Sink,
        alone: bool = False,  # noqa: ARG002 - it means nothing here
        wait_for_grading: Callable[[], Awaitable[None]] = grade_at_once,
    ) -> Trace:
        """One attempt at a rollout. `alone` means nothing here: this process is not lost without the run."""
        parts = replace(self.parts, sink=sink, wait_for_grading=wait_for_grading)
        return await run_rollout(parts, task, run=run, rollout=rollout, blobs=blobs)
