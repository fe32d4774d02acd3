"""One rollout on one screen: open a world, let the agent act, gather evidence, grade, close.

Features are added through the parts, not as branches here. `record_outcome` is the only place where an error becomes an outcome.
"""

import functools
from collections.abc import AsyncGenerator, Generator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from typing import Literal

import anyio
import msgspec

from sandlot.core.concurrency.author import contained, frames_of
from sandlot.core.concurrency.clock import SYSTEM_CLOCK, deadline, time_limit, timed
from sandlot.core.crashes import teardown_event
from sandlot.core.errors import GradeError, HarnessError, SandlotError, StoppedByHook, StoreError, boundary, unwrapped
from sandlot.core.images import images_stored_in
from sandlot.core.ports.session import Policies, Session
from sandlot.core.ports.store import Blobs
from sandlot.core.rubric import RubricScore
from sandlot.core.seats import SeatTrace, begin_seat, join_seats, joint_end
from sandlot.core.task import Task
from sandlot.core.trace import Cancelled, Event, Failed, Scored, Trace
from sandlot.core.types import End, Side, derive_seed
from sandlot.env.grading import grade, load_evidence, rubric_for
from sandlot.env.seats import SeatSession, open_seats, seat_scores
from sandlot.env.session import WorldSession, open_session, world_seed
from sandlot.grade.gather import cut_events
from sandlot.model.endpoint.retry import Retry, listen_for_retries
from sandlot.observe.rollout_events import (
    EmittingPolicy,
    emit_agent_ended,
    emit_call,
    emit_graded,
    emit_opened,
    emit_retry,
)
from sandlot.wiring.parts import Grading, RolloutParts


async def run_rollout(parts: RolloutParts, task: Task, *, run: str, rollout: int, blobs: Blobs) -> Trace:
    """Open a world, let the agent act in it, grade the result. A failed rollout does not raise: its trace says what failed."""
    seed = world_seed(parts.env, task)
    trace = Trace(run=run, task=task.id, rollout=rollout, seed=seed, started=SYSTEM_CLOCK.wall())
    accepted: bool = getattr(parts.policies, "takes_images", False)  # a policy of a plug-in need not say
    with record_outcome(trace), images_stored_in(blobs, accepted=accepted):
        async with _opened(parts, task, trace, blobs) as session:
            try:
                with _emitted_retries(parts, trace, "agent"):
                    trace.end = await _act(parts, task, session, trace)
                with timed(trace.phases, "gather"):
                    trace.evidence = await session.gather(trace.answer)
                    trace.events += cut_events(trace.evidence, trace.num_turns) + await session.store_recordings()
            finally:
                trace.events += session.late_events()
        emit_agent_ended(parts.sink, trace)
        with timed(trace.phases, "waiting"):
            await parts.wait_for_grading()
        with timed(trace.phases, "grade"), _emitted_retries(parts, trace, "judge"):
            trace.outcome = Scored(await grade_trace(parts.grading, task, trace, blobs))
        emit_graded(parts.sink, trace)
    return trace


async def grade_trace(grading: Grading, task: Task, trace: Trace, blobs: Blobs) -> RubricScore:
    """Grade a rollout from its stored evidence, and give every seat its own score; used the first time and for re-grading."""
    limits = grading.env.limits.but(task.limits)
    with deadline(limits.grade_s, GradeError, f"grading task `{task.id}`"), images_stored_in(blobs):
        evidence = await load_evidence(grading.env, task, trace, blobs, grading.backend)
        grading.on_evidence(evidence)
        score = await grade(grading.env, task, evidence, grading.judge, rubric=grading.rubric)
    _score_seats(grading, task, trace, score)
    return score


@asynccontextmanager
async def _opened(parts: RolloutParts, task: Task, trace: Trace, blobs: Blobs) -> AsyncGenerator[WorldSession]:
    """Open the session, and time opening and closing."""
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
                    for_seats=True,
                )
            )
        emit_opened(parts.sink, trace)
        session.on_call = functools.partial(emit_call, parts.sink, trace)
        yield session
        with timed(trace.phases, "close"), _noted_teardown(trace):
            await stack.aclose()


@contextmanager
def _noted_teardown(trace: Trace) -> Generator[None]:
    """The evidence is stored: a world that cannot be closed in order is noted, and the rollout is graded."""
    try:
        with boundary(HarnessError, "closing the world"):
            yield
    except StoreError:
        raise
    except SandlotError as error:
        trace.events.append(teardown_event(error, trace.num_turns))


def _emitted_retries(parts: RolloutParts, trace: Trace, by: Literal["agent", "judge"]) -> listen_for_retries:
    """Emit every request to a model that is sent again inside the block."""

    def note(retry: Retry) -> None:
        emit_retry(parts.sink, trace, by, retry.kind, retry.wait_s)

    return listen_for_retries(note)


async def _act(parts: RolloutParts, task: Task, session: WorldSession, trace: Trace) -> End:
    """Let the agent act until it ends; where there are several, until all have."""
    if parts.env.seats:
        return await _act_together(parts, task, session, trace)
    seed = derive_seed("sampling", parts.draws or trace.run, task.id, trace.rollout)
    return await _play(parts, parts.policies, seed, task, session, session.limits.time_s, trace)


async def _play(
    parts: RolloutParts, policies: Policies, seed: int, task: Task, session: Session, time_s: float, trace: Trace
) -> End:
    """Run the harness until the agent ends, at the latest when its time is used up."""
    with time_limit(time_s), boundary(HarnessError, f"harness `{parts.harness.name}`"):
        async with policies.policy(task, seed, trace.rollout) as policy:
            return await contained(parts.harness.play(session, EmittingPolicy(policy, parts.sink), trace))
    trace.events.append(Event(kind="limit", turn=trace.num_turns, detail={"limit": "time_limit", "seconds": time_s}))
    return End.TIME_LIMIT


async def _act_together(parts: RolloutParts, task: Task, session: WorldSession, trace: Trace) -> End:
    """Run the harness once for every seat, all in one world. If one of them fails, the rollout does."""
    seats = [(seat, begin_seat(trace, seat.seat)) for seat in open_seats(parts.env, session)]
    started_s = SYSTEM_CLOCK.monotonic()

    async def play(seat: SeatSession, own: SeatTrace) -> None:
        seed = derive_seed("sampling", parts.draws or trace.run, task.id, trace.rollout, seat.seat)
        own.end = await _play(parts, parts.policies_of(seat.seat), seed, task, seat, seat.limits.time_s, own)
        await seat.leave()

    try:
        async with anyio.create_task_group() as group:
            for seat, own in seats:
                group.start_soon(play, seat, own)
    finally:
        join_seats(trace, (own for _, own in seats))
        tools_s = sum(own.phases.get("tools", 0.0) - seat.waited_s for seat, own in seats)
        model_s = max(0.0, SYSTEM_CLOCK.monotonic() - started_s - tools_s)  # seats that act at once sample together
        trace.phases |= {"model": model_s, "tools": tools_s}
    return joint_end({own.seat: own.end or End.CUT for _, own in seats})


def _score_seats(grading: Grading, task: Task, trace: Trace, score: RubricScore) -> None:
    """Give every seat its own score."""
    if not trace.seats or trace.evidence is None:
        return
    rubric = rubric_for(grading.env, task, grading.rubric)
    for seat, own in seat_scores(grading.env, rubric, score, trace.evidence.penalties).items():
        trace.seats[seat] = msgspec.structs.replace(trace.seats[seat], score=own)


@contextmanager
def record_outcome(trace: Trace) -> Generator[None]:
    """Turn an error into the trace's outcome, `Failed` or `Cancelled`. Cancellation of the task passes through."""
    try:
        yield
    except Exception as error:  # noqa: BLE001 - the only catcher: a failed rollout is data, not a crash
        cause = unwrapped(error)
        if isinstance(cause, StoreError):
            raise cause from error.__cause__  # a rollout that cannot be stored does not count: the run stops
        trace.end = trace.end or End.CUT
        if isinstance(cause, StoppedByHook):
            trace.outcome = Cancelled(str(cause))
        elif isinstance(cause, SandlotError):
            trace.outcome = Failed(cause.side or Side.HARNESS, cause.kind, str(cause), frames_of(cause))
        else:
            trace.outcome = Failed(Side.HARNESS, "crash", f"{type(cause).__name__}: {cause}", frames_of(cause))
