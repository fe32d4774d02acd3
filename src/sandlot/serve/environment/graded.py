"""Sessions for served clients, graded when they end.

The messages are recorded as a trace, so that a served rollout is graded by the same function as all others.
"""

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager

import msgspec

from sandlot.core.errors import ConfigError
from sandlot.core.ports.session import Session, Step
from sandlot.core.ports.store import Blobs
from sandlot.core.ports.world import ToolSpec
from sandlot.core.task import Task
from sandlot.core.trace import Message, Node, Outcome, Scored, Trace
from sandlot.env.session import WorldSession, open_session, world_seed
from sandlot.grade.gather import cut_events
from sandlot.rollout import grade_trace, record_outcome
from sandlot.store.blobs import MemoryBlobs
from sandlot.wiring.parts import Grading


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

    def __init__(self, grading: Grading, task: Task) -> None:
        self._grading = grading
        self._task = task

    @asynccontextmanager
    async def open(self) -> AsyncGenerator[Session]:
        """Open a new world for one client."""
        env = self._grading.env
        trace = Trace(run="served", task=self._task.id, rollout=0, seed=world_seed(env, self._task))
        blobs = MemoryBlobs()
        async with open_session(env, self._task, backend=self._grading.backend, blobs=blobs) as session:
            yield _RecordedSession(session, trace, blobs)

    async def finish_text(self, session: Session) -> str:
        """Grade a rollout that has ended; the score with all checks, or what failed."""
        if not isinstance(session, _RecordedSession):
            raise ConfigError("a session can only be graded by the `GradedTask` that opened it")
        trace = session.trace
        with record_outcome(trace):
            trace.evidence = await session.inner.gather(trace.answer)
            trace.events += cut_events(trace.evidence, trace.num_turns)
            trace.outcome = Scored(await grade_trace(self._grading, self._task, trace, session.blobs))
        return _score_text(trace.outcome)


def _score_text(outcome: Outcome | None) -> str:
    if not isinstance(outcome, Scored):
        return f"This rollout has no score: {outcome}"
    lines = [f"{check.verdict} {check.points:g}/{check.worth:g} {check.id}" for check in outcome.score.checks]
    return "\n".join([f"score {outcome.score}", *lines])
