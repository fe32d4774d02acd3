"""One rollout on one screen: open a world, let the agent act, gather evidence, grade, close.

Features attach through the parts, never as branches here. `record_outcome` is the one place where an error becomes an outcome.
"""

import functools
from collections.abc import AsyncGenerator, Generator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager

from sandlot.core.concurrency.author import frames_of
from sandlot.core.concurrency.clock import SYSTEM_CLOCK, deadline, time_limit, timed
from sandlot.core.errors import GradeError, HarnessError, SandlotError, StoppedByHook, StoreError, boundary, unwrapped
from sandlot.core.ports.store import Blobs
from sandlot.core.rubric import RubricScore
from sandlot.core.task import Task
from sandlot.core.trace import Cancelled, Event, Failed, Scored, Trace
from sandlot.core.types import End, Side, derive_seed
from sandlot.env.grading import grade, load_evidence
from sandlot.env.session import WorldSession, open_session, world_seed
from sandlot.grade.gather import cut_events
from sandlot.observe.rollout_events import EmittingPolicy, emit_call, emit_graded
from sandlot.wiring.parts import Grading, RolloutParts


async def run_rollout(parts: RolloutParts, task: Task, *, run: str, rollout: int, blobs: Blobs) -> Trace:
    """Open a world, let the agent act in it, grade what it left. Never raises for a bad rollout."""
    seed = world_seed(parts.env, task)
    trace = Trace(run=run, task=task.id, rollout=rollout, seed=seed, started=SYSTEM_CLOCK.wall())
    with record_outcome(trace):
        async with _opened(parts, task, trace, blobs) as session:
            trace.end = await _act(parts, task, session, trace)
            with timed(trace.phases, "gather"):
                trace.evidence = await session.gather(trace.answer)
                trace.events += cut_events(trace.evidence, trace.num_turns)
        with timed(trace.phases, "grade"):
            trace.outcome = Scored(await grade_trace(parts.grading, task, trace, blobs))
        emit_graded(parts.sink, trace)
    return trace


async def grade_trace(grading: Grading, task: Task, trace: Trace, blobs: Blobs) -> RubricScore:
    """The score of what a rollout left: the same function the first time and every time after."""
    limits = grading.env.limits.but(task.limits)
    with deadline(limits.grade_s, GradeError, f"grading task `{task.id}`"):
        evidence = await load_evidence(grading.env, task, trace, blobs, grading.backend)
        return await grade(grading.env, task, evidence, grading.judge, rubric=grading.rubric)


@asynccontextmanager
async def _opened(parts: RolloutParts, task: Task, trace: Trace, blobs: Blobs) -> AsyncGenerator[WorldSession]:
    """The session, with the time it took to open and to close."""
    async with AsyncExitStack() as stack:
        with timed(trace.phases, "open"):
            session = await stack.enter_async_context(
                open_session(
                    parts.env,
                    task,
                    backend=parts.grading.backend,
                    blobs=blobs,
                    user=parts.user(task, trace.run, trace.rollout),
                    keep_time=False,
                )
            )
        session.on_call = functools.partial(emit_call, parts.sink, trace)
        yield session
        with timed(trace.phases, "close"):
            await stack.aclose()


async def _act(parts: RolloutParts, task: Task, session: WorldSession, trace: Trace) -> End:
    """Play until there is an end; the agent's own time running out is one."""
    seed = derive_seed("sampling", parts.draws or trace.run, task.id, trace.rollout)
    with time_limit(session.limits.time_s), boundary(HarnessError, f"harness `{parts.harness.name}`"):
        async with parts.policies.policy(task, seed, trace.rollout) as policy:
            return await parts.harness.play(session, EmittingPolicy(policy, parts.sink), trace)
    trace.events.append(
        Event(kind="limit", turn=trace.num_turns, detail={"limit": "time_limit", "seconds": session.limits.time_s})
    )
    return End.TIME_LIMIT


@contextmanager
def record_outcome(trace: Trace) -> Generator[None]:
    """Turn whatever breaks into the trace's outcome. A failure never becomes a reward; cancellation passes through."""
    try:
        yield
    except StoreError:
        raise  # what cannot be kept does not count: the run stops
    except Exception as error:  # noqa: BLE001 - the one catcher: a bad rollout is data, not a crash
        cause = unwrapped(error)
        trace.end = trace.end or End.CUT
        if isinstance(cause, StoppedByHook):
            trace.outcome = Cancelled(str(cause))
        elif isinstance(cause, SandlotError):
            trace.outcome = Failed(cause.side or Side.HARNESS, cause.kind, str(cause), frames_of(cause))
        else:
            trace.outcome = Failed(Side.HARNESS, "crash", f"{type(cause).__name__}: {cause}", frames_of(cause))
