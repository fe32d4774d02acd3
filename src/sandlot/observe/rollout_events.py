"""The events of one rollout: its turns, tool calls and score.

They are emitted around the harness: between it and the policy, and by the session that answers its tool calls. A harness or a
policy of a plug-in needs to do nothing for them.
"""

from collections.abc import Sequence
from typing import Literal

from sandlot.core.concurrency.clock import SYSTEM_CLOCK
from sandlot.core.ports.session import Policy
from sandlot.core.ports.world import ToolSpec
from sandlot.core.trace import MODEL_RETRY, Node, Scored, Trace, Usage
from sandlot.observe.events import AgentEnded, ModelRetried, RolloutGraded, Sink, ToolCalled, TurnTaken, WorldOpened

_LONGEST_NAME = 200
"""Characters of a tool's name: the agent may write any."""


class EmittingPolicy:
    """A policy that also emits each turn."""

    def __init__(self, policy: Policy, sink: Sink) -> None:
        self._policy = policy
        self._sink = sink
        self._num_turns = 0

    async def turn(self, trace: Trace, leaf: int, tools: Sequence[ToolSpec]) -> Node:
        """The policy's own turn."""
        started_s = SYSTEM_CLOCK.monotonic()
        num_events = len(trace.events)
        node = await self._policy.turn(trace, leaf, tools)
        self._num_turns += 1
        usage = node.usage or Usage()
        self._sink(
            TurnTaken(
                run=trace.run,
                task=trace.task,
                rollout=trace.rollout,
                turn=self._num_turns,
                prompt_tokens=usage.prompt_tokens,
                completion_tokens=usage.completion_tokens or (len(node.tokens) if node.tokens else 0),
                seconds=SYSTEM_CLOCK.monotonic() - started_s,
                stop=node.stop,
                cached_tokens=usage.cached_tokens,
                retries=sum(event.kind == MODEL_RETRY for event in trace.events[num_events:]),
                replica=node.replica,
            )
        )
        return node


def emit_call(sink: Sink, trace: Trace, turn: int, name: str, seconds: float, error: bool) -> None:  # noqa: FBT001 - `on_call`
    """Emit a tool call that was answered; the session's `on_call`."""
    sink(
        ToolCalled(
            run=trace.run,
            task=trace.task,
            rollout=trace.rollout,
            turn=turn,
            name=name[:_LONGEST_NAME],
            seconds=seconds,
            error=error,
        )
    )


def emit_opened(sink: Sink, trace: Trace) -> None:
    """Emit that the world of a rollout is open."""
    sink(WorldOpened(run=trace.run, task=trace.task, rollout=trace.rollout, seconds=trace.phases["open"]))


def emit_retry(sink: Sink, trace: Trace, by: Literal["agent", "judge"], kind: str, wait_s: float) -> None:
    """Emit that a request to a model is sent again."""
    sink(ModelRetried(run=trace.run, task=trace.task, rollout=trace.rollout, by=by, kind=kind, wait_s=wait_s))


def emit_agent_ended(sink: Sink, trace: Trace) -> None:
    """Emit that a rollout is graded next."""
    assert trace.end is not None
    sink(AgentEnded(run=trace.run, task=trace.task, rollout=trace.rollout, end=trace.end.value))


def emit_graded(sink: Sink, trace: Trace) -> None:
    """Emit the score of a trace that was graded."""
    assert isinstance(trace.outcome, Scored)
    score = trace.outcome.score
    sink(
        RolloutGraded(
            run=trace.run,
            task=trace.task,
            rollout=trace.rollout,
            score=score.value,
            passed=score.passed,
            seconds=trace.phases["grade"],
            latency=trace.reward_latency_s,
        )
    )
