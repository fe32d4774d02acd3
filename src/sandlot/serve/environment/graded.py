"""Sessions for served clients, graded when they end.

The messages are recorded as a trace, so that a served rollout is graded by the same function as all others.
"""

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from typing import Literal

import msgspec

from sandlot.core.errors import ConfigError
from sandlot.core.ports.session import Session, Step
from sandlot.core.ports.store import Blobs
from sandlot.core.ports.world import ToolSpec
from sandlot.core.task import Task
from sandlot.core.trace import Failed, Message, Node, Outcome, Scored, Trace
from sandlot.env.session import WorldSession, open_session, world_seed
from sandlot.grade.gather import cut_events
from sandlot.rollout import grade_trace, record_outcome
from sandlot.store.blobs import MemoryBlobs
from sandlot.wiring.parts import Grading

Feedback = Literal["none", "score", "tags", "checks"]
"""What a client learns of its result: nothing, the score, the points of each tag, or every check with its verdict."""


class _RecordedSession:
    """A session that records a trace."""

    def __init__(self, session: WorldSession, trace: Trace, blobs: Blobs) -> None:
        self.trace = trace
        self.blobs = blobs
        self.inner = session
        self._leaf: int | None = None

    @property
    def tools(self) -> Sequence[ToolSpec]:
        """The tools the agent may call."""
        return self.inner.tools

    async def reset(self) -> Step:
        """The opening messages."""
        return self._record(await self.inner.reset())

    async def step(self, action: Message, *, num_tokens: int = 0) -> Step:
        """Take one assistant message."""
        self._leaf = self.trace.append(Node(message=action, parent=self._leaf, sampled=True))
        return self._record(await self.inner.step(action, num_tokens=num_tokens))

    async def render(self) -> str:
        """The current state as text for a person."""
        return await self.inner.render()

    def _record(self, step: Step) -> Step:
        self.trace.events.extend(step.events)
        self.trace.end = step.end
        for node in step.nodes:
            self._leaf = self.trace.append(msgspec.structs.replace(node, parent=self._leaf))
        return step


class GradedTask:
    """One task served to many clients, each in its own world."""

    def __init__(self, grading: Grading, task: Task, *, feedback: Feedback = "score") -> None:
        self._grading = grading
        self._task = task
        self._feedback: Feedback = feedback

    @asynccontextmanager
    async def open(self) -> AsyncGenerator[Session]:
        """Open a new world for one client."""
        env = self._grading.env
        trace = Trace(run="served", task=self._task.id, rollout=0, seed=world_seed(env, self._task))
        blobs = MemoryBlobs()
        async with open_session(env, self._task, backend=self._grading.backend, blobs=blobs) as session:
            yield _RecordedSession(session, trace, blobs)

    async def finish_text(self, session: Session) -> str:
        """Grade a rollout that has ended; what its client may know of the result."""
        if not isinstance(session, _RecordedSession):
            raise ConfigError("a session can only be graded by the `GradedTask` that opened it")
        trace = session.trace
        with record_outcome(trace):
            trace.evidence = await session.inner.gather(trace.answer)
            trace.events += cut_events(trace.evidence, trace.num_turns)
            trace.outcome = Scored(await grade_trace(self._grading, self._task, trace, session.blobs))
        return feedback_text(trace.outcome, self._feedback)


def feedback_text(outcome: Outcome | None, feedback: Feedback) -> str:
    """What a client is answered at the end.

    Without `checks`, nothing in it names a check: neither how it was met, nor the check that failed.
    """
    if not isinstance(outcome, Scored):
        return f"This rollout has no score: {outcome}" if feedback == "checks" else _no_score(outcome)
    score = outcome.score
    match feedback:
        case "none":
            return ""
        case "score":
            return f"score {score}"
        case "tags":
            return "\n".join([f"score {score}", *(f"{got:g}/{of:g} {tag}" for tag, (got, of) in score.by_tag().items())])
        case "checks":
            lines = [f"{check.verdict} {check.points:g}/{check.worth:g} {check.id}" for check in score.checks]
            return "\n".join([f"score {score}", *lines])


def _no_score(outcome: Outcome | None) -> str:
    """The message of a failure may quote a check, and its frames the author's code."""
    why = f"{outcome.side} failed ({outcome.kind})" if isinstance(outcome, Failed) else "it was cancelled"
    return f"This rollout has no score: {why}"
