"""What a worker says about a rollout, checked before it counts: it must be about the rollout that the worker was told to take.

Types are checked when a message is decoded. A worker is still trusted with the result itself: whoever takes a rollout also grades
it.
"""

import math

from sandlot.core.trace import Scored, Trace
from sandlot.run.executors.messages import AboutRollout, EventHappened, RolloutDone, TakeRollout


def problem_of(message: AboutRollout, order: TakeRollout) -> str | None:
    """What is wrong with it, as the rest of a sentence about the worker; None if nothing is."""
    match message:
        case EventHappened(event=event):
            if (event.run, event.task, event.rollout) != (order.run, order.task, order.rollout):
                return f"sent an event of rollout {event.rollout} of task `{event.task}`, which it was not told to take"
        case RolloutDone(trace=trace):
            if (trace.run, *trace.key) != (order.run, order.task, order.rollout):
                return f"sent rollout {trace.rollout} of task `{trace.task}`, which it was not told to take"
            return _problem_of_trace(trace)
        case _:
            pass
    return None


def _problem_of_trace(trace: Trace) -> str | None:
    if trace.end is None or trace.outcome is None:
        return "sent a trace that has no end"
    if not trace.is_tree:
        return "sent a trace whose messages are not a tree"
    if isinstance(trace.outcome, Scored) and not math.isfinite(trace.outcome.score.value):
        return "sent a score that is no number"
    return None
