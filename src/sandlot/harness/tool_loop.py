"""The built-in harness: take a turn, run its tools, append the results, until there is an end.

The session enforces the limits. Three cases are handled here because only the loop sees them: a turn that was refused, a turn cut
off at its token limit, and a context that is too long for the endpoint. All are recorded in the trace.
"""

from collections.abc import Generator, Sequence
from contextlib import contextmanager

import msgspec

from sandlot.core.concurrency.clock import SYSTEM_CLOCK, deadline, pause_limits, timed
from sandlot.core.errors import HarnessError, ModelError, boundary
from sandlot.core.ports.session import Hook, Policy, Session, Step
from sandlot.core.trace import Event, Message, Node, Trace
from sandlot.core.types import End

_HOOK_S = 3600.0
"""Time limit of a hook, which may ask a person."""


class ToolLoop:
    """One agent, one conversation, tools."""

    name = "tool-loop"

    def __init__(self, hooks: Sequence[Hook] = ()) -> None:
        self._hooks = tuple(hooks)

    async def play(self, session: Session, policy: Policy, trace: Trace) -> End:
        """Take turns until there is an end, and append everything to the trace."""
        step = await session.reset()
        leaf = _record(trace, step, None)
        while step.end is None:
            node = await _take_turn(policy, session, trace, leaf)
            if node is None:
                return End.TOKEN_LIMIT
            leaf, action = await self._review(trace, trace.append(node))
            ended = _ended_by_turn(node, trace) if action is node.message else None  # else the intervention is acted on
            if ended is not None:
                return ended
            with timed(trace.phases, "tools"):
                step = await session.step(action, num_tokens=node.num_tokens)
            leaf = _record(trace, step, leaf)
            for hook in self._hooks:
                with _hook_limits(hook):
                    await hook.after_step(trace, step)
        return step.end

    async def _review(self, trace: Trace, leaf: int) -> tuple[int, Message]:
        """Call the hooks; an intervention becomes a sibling node, and the sampled node stays in the trace."""
        node = trace.nodes[leaf]
        action = node.message
        for hook in self._hooks:
            with _hook_limits(hook):
                instead = await hook.after_turn(trace, node)
            if instead is not None:
                action = instead
                leaf = trace.append(Node(message=instead, parent=node.parent, start_s=node.start_s))
                trace.events.append(
                    Event(kind="intervention", turn=trace.num_turns, detail={"hook": type(hook).__name__, "node": leaf})
                )
        return leaf, action


@contextmanager
def _hook_limits(hook: Hook) -> Generator[None]:
    """A hook belongs to the operator: its time does not count for the agent, and its errors not for the environment."""
    with pause_limits(), deadline(_HOOK_S, HarnessError, f"hook `{type(hook).__name__}`"):
        yield


async def _take_turn(policy: Policy, session: Session, trace: Trace, leaf: int) -> Node | None:
    """The policy's next node; None if the conversation no longer fits its context."""
    try:
        with timed(trace.phases, "model"), boundary(ModelError, "the policy"):
            node = await policy.turn(trace, leaf, session.tools)
    except ModelError as error:
        if error.kind != "context":
            raise
        trace.events.append(Event(kind="context_overflow", turn=trace.num_turns, detail={"message": str(error)[:500]}))
        return None
    if not node.is_turn:
        raise HarnessError(
            f"the policy gave a {node.message.role} node, sampled={node.sampled}; a turn is a sampled assistant message"
        )
    return node


def _ended_by_turn(node: Node, trace: Trace) -> End | None:
    if node.stop == "refusal":
        return End.REFUSED
    if node.stop == "length":
        trace.events.append(Event(kind="turn_cut", turn=trace.num_turns, detail={"chars": len(node.message.text)}))
        # A message that was cut off is not a final answer; complete tool calls in it are still executed.
        return None if node.message.calls else End.TOKEN_LIMIT
    return None


def _record(trace: Trace, step: Step, leaf: int | None) -> int:
    """Append the nodes and events of a step; returns the new leaf."""
    trace.events.extend(step.events)
    for node in step.nodes:
        start_s = max(0.0, SYSTEM_CLOCK.wall() - trace.started - node.seconds) if node.sampled else node.start_s
        leaf = trace.append(msgspec.structs.replace(node, parent=leaf, start_s=start_s))
    if leaf is None:
        raise HarnessError("the session's `reset` gave no opening message")
    return leaf
