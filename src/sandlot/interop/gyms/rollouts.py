"""Rollouts that a Gymnasium or PettingZoo loop drives, one move at a time, from a synchronous thread.

They are ordinary rollouts: the session enforces limits and constraints, evidence is gathered, the rubric grades. A rollout that
failed has no reward: the error is raised in the loop that drove it. The time until the loop's next move is not the agent's.
"""

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from weakref import finalize

from anyio.from_thread import BlockingPortal, start_blocking_portal

from sandlot.core.errors import AuthorError, ConfigError, GradeError, HarnessError, ModelError, SandboxError, SandlotError
from sandlot.core.images import describe_images
from sandlot.core.persona import AGENT
from sandlot.core.task import Task
from sandlot.core.trace import Failed, Message, Scored, Trace
from sandlot.core.types import Role, Side, Split
from sandlot.env.environment import Environment
from sandlot.env.load import load
from sandlot.env.taskset import task_named, tasks_of
from sandlot.harness.tool_loop import ToolLoop
from sandlot.interop.driven import DrivenRollout, PendingTurn
from sandlot.model.policy.user import ModelUsers
from sandlot.rollout import run_rollout
from sandlot.store.blobs import MemoryBlobs
from sandlot.wiring.config import judge_config
from sandlot.wiring.parts import Grading, RolloutParts, open_grading

_ERRORS: dict[Side, type[SandlotError]] = {
    Side.ENVIRONMENT: AuthorError,
    Side.SANDBOX: SandboxError,
    Side.MODEL: ModelError,
    Side.GRADER: GradeError,
    Side.HARNESS: HarnessError,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class GymOptions:
    """Which tasks a loop gets, and what they run with."""

    tasks: Sequence[str] = ()
    """Ids of tasks; empty for all of the split."""
    split: Split | None = Split.TRAIN
    judge: str | None = None
    sandbox: str = "native"


class GymRollouts:
    """The tasks of an environment, and rollouts of them. The event loop and the sandboxes are opened with the first rollout."""

    def __init__(self, env: str | Path | Environment, options: GymOptions, name: str) -> None:
        self.env = load(env)
        self._options = options
        self._name = name
        self.tasks = _chosen_tasks(self.env, options)
        self._num_begun = 0
        self._opened: _OpenRollouts | None = None

    def task(self, name: Any) -> Task:
        """The task with this id; `ConfigError` if it is not among the chosen ones."""
        for task in self.tasks:
            if task.id == name:
                return task
        raise ConfigError(f"`{name}` is none of the {len(self.tasks)} tasks here; the first is `{self.tasks[0].id}`")

    def begin(self, task: Task, *, user: bool = False) -> DrivenRollout:
        """Begin a rollout. With `user`, the loop plays the environment's user too."""
        opened = self._opened = self._opened or _OpenRollouts.open(self.env, self._options)
        number, self._num_begun = self._num_begun, self._num_begun + 1

        async def play(driven: DrivenRollout) -> Trace:
            parts = RolloutParts(
                grading=opened.grading,
                policies=driven.seat(),
                harness=ToolLoop(),
                users=ModelUsers(driven.seat(AGENT)) if user else None,
            )
            return await run_rollout(parts, task, run=self._name, rollout=number, blobs=MemoryBlobs())

        driven = DrivenRollout(opened.portal, play, self._name)
        opened.begun[:] = [*(each for each in opened.begun if not each.over), driven]
        return driven

    def drop(self) -> None:
        """Cancel the rollouts in progress."""
        if self._opened is not None:
            self._opened.drop()

    def close(self) -> None:
        """Cancel the rollouts in progress; close sandboxes and the event loop."""
        if self._opened is not None:
            self._opened.closing()
            self._opened = None


@dataclass(slots=True, weakref_slot=True)
class _OpenRollouts:
    """What rollouts need while a loop runs: an event loop in a thread, sandboxes and a judge."""

    portal: BlockingPortal
    grading: Grading
    stack: ExitStack
    begun: list[DrivenRollout] = field(default_factory=list[DrivenRollout])
    closing: Any = None

    @classmethod
    def open(cls, env: Environment, options: GymOptions) -> "_OpenRollouts":
        with ExitStack() as stack:
            portal = stack.enter_context(start_blocking_portal(name="sandlot-gym"))
            grading = stack.enter_context(
                portal.wrap_async_context_manager(open_grading(env, judge=judge_config(options.judge), sandbox=options.sandbox))
            )
            opened = cls(portal, grading, stack.pop_all())
        # A loop that forgets `close` must not leave sandboxes behind.
        opened.closing = finalize(opened, _close, opened.begun, opened.stack)
        return opened

    def drop(self) -> None:
        while self.begun:
            self.begun.pop().drop()


def _close(begun: list[DrivenRollout], stack: ExitStack) -> None:
    while begun:
        begun.pop().drop()
    stack.close()


def _chosen_tasks(env: Environment, options: GymOptions) -> tuple[Task, ...]:
    if options.tasks:
        if isinstance(options.tasks, str):
            raise ConfigError(f"tasks is {options.tasks!r}; give a list of task ids, such as `[{options.tasks!r}]`")
        return tuple(task_named(env, name) for name in options.tasks)
    tasks = tuple(tasks_of(env, options.split))
    if not tasks:
        raise ConfigError(f"environment `{env.name}` has no tasks in split `{options.split}`; give `split=None` for all")
    return tasks


def require_scored(trace: Trace) -> float:
    """The reward of a finished rollout. A failed one has none: its error is raised, with the side that failed."""
    outcome = trace.outcome
    if isinstance(outcome, Scored):
        return outcome.score.value
    if isinstance(outcome, Failed):
        raise _ERRORS[outcome.side](f"task `{trace.task}` has no reward: {outcome.message}", kind=outcome.kind)
    raise HarnessError(f"task `{trace.task}` has no reward: {outcome}", kind="over")


def require_pending(driven: DrivenRollout, pending: PendingTurn | None) -> PendingTurn:
    """The first turn of a rollout; if the rollout ended before it, its error is raised."""
    if pending is None:
        require_scored(driven.trace())
        raise HarnessError("the rollout ended before the agent's first turn")
    return pending


def observation_text(messages: Sequence[Message], images: str | None) -> str:
    """Messages as one text, each with its role. Images are described or left out, as the environment declares."""
    return "\n\n".join(block for message in messages for block in _blocks(describe_images(message, images or "describe")))


def _blocks(message: Message) -> list[str]:
    if message.role is Role.TOOL:
        return [f"tool: {'error: ' if result.error else ''}{result.text}" for result in message.results]
    return [f"{message.role}: {message.text}"]
