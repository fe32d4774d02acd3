"""The grading queue: it is bounded, and no rollout is lost or doubled, whatever happens in which order."""

from collections import Counter
from contextlib import nullcontext
from dataclasses import replace

import anyio
import anyio.lowlevel
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandlot import Environment, Limits, Task
from sandlot.core.errors import SandboxError
from sandlot.core.trace import Failed, Scored, Trace
from sandlot.core.types import Side
from sandlot.model.policy.scripted import scripted_policies
from sandlot.observe.events import AgentEnded, RolloutBegan, RolloutGraded
from sandlot.run.collector import Collection, open_collector
from sandlot.run.config import RunConfig
from sandlot.run.control import RunOrder
from sandlot.run.executors.executor import Executor, WorkerLost
from sandlot.run.prepare import prepare_run
from sandlot.run.results import Run
from sandlot.run.slots import RolloutStay, Slots
from sandlot.wiring.config import ModelConfig


class Grader:
    """Checks that wait until they are let go, and fail as often as told."""

    def __init__(self, failures: int = 0) -> None:
        self.failures = failures
        self.let_go = anyio.Event()
        self.at_work = 0
        self.most_at_work = 0

    async def grade(self) -> None:
        self.at_work += 1
        self.most_at_work = max(self.most_at_work, self.at_work)
        try:
            await self.let_go.wait()
        finally:
            self.at_work -= 1
        if self.failures:
            self.failures -= 1
            raise SandboxError("the grading sandbox is gone")


def graded_by(grader: Grader, num_tasks: int = 8) -> Environment:
    env = Environment("graded", limits=Limits(turns=1))

    @env.tasks
    def tasks(rng):
        for number in range(num_tasks):
            yield Task(f"t{number}", prompt="Say anything.")

    @env.check(points=1)
    async def fine(evidence, task):
        await grader.grade()
        return True

    return env


async def prepared_run(grader: Grader, *, num_tasks: int = 8, **fields):
    env = graded_by(grader, num_tasks)
    config = RunConfig(env=env.name, model=ModelConfig(spec="scripted:noop"), **fields)
    return await prepare_run(env, config)


def policies():
    return nullcontext(scripted_policies("noop", None))


async def test_a_rollout_that_is_graded_gives_its_slot_to_the_next(tmp_path):
    grader, events = Grader(), []
    prepared = await prepared_run(grader, at_once=2)
    async with (
        open_collector(prepared, tmp_path / "run", policies=policies(), sink=events.append) as collector,
        anyio.create_task_group() as group,
    ):
        group.start_soon(collector.collect, prepared.plan)
        await anyio.wait_all_tasks_blocked()
        began, ended = (sum(isinstance(event, kind) for event in events) for kind in (RolloutBegan, AgentEnded))
        # Two are graded; two more have evidence and keep their slots, since the queue is full.
        assert (began, ended, grader.at_work) == (4, 4, 2)
        assert (collector.slots.gradings.num_grading, collector.slots.gradings.num_waiting, collector.slots.in_flight) == (
            2,
            2,
            2,
        )
        assert collector.obey(RunOrder(do="status")).grading == 2
        grader.let_go.set()
    run = Run(tmp_path / "run")
    assert (len(run), run.verdict, grader.most_at_work) == (8, "complete", 2)
    assert all(event.latency >= event.seconds for event in events if isinstance(event, RolloutGraded))


async def test_the_time_in_the_queue_is_in_the_trace_and_counts_against_no_limit(tmp_path):
    grader = Grader()
    prepared = await prepared_run(grader, num_tasks=3, at_once=1)
    async with (
        open_collector(prepared, tmp_path / "run", policies=policies()) as collector,
        anyio.create_task_group() as group,
    ):
        group.start_soon(collector.collect, prepared.plan)
        await anyio.wait_all_tasks_blocked()
        grader.let_go.set()
    run = Run(tmp_path / "run")
    waited = [trace.phases["waiting"] for trace in run]
    assert max(waited) > 0
    assert run.summary().reward_latency.longest == pytest.approx(max(trace.reward_latency_s for trace in run))


async def test_grading_that_fails_leaves_no_reward_and_no_place_taken(tmp_path):
    grader = Grader(failures=3)
    grader.let_go.set()
    prepared = await prepared_run(grader, at_once=1)
    async with open_collector(prepared, tmp_path / "run", policies=policies()) as collector:
        await collector.collect(prepared.plan)
        assert (collector.slots.in_flight, collector.slots.gradings.num_grading) == (0, 0)
    found = list(Run(tmp_path / "run"))
    assert Counter(type(trace.outcome) for trace in found) == {Scored: 5, Failed: 3}
    assert {(trace.reward, trace.outcome.side) for trace in found if isinstance(trace.outcome, Failed)} == {(None, Side.GRADER)}


class LosesGradings:
    """An executor whose workers die while they grade, as often as told."""

    def __init__(self, executor: Executor, losses: int) -> None:
        self._executor, self._losses = executor, losses

    async def run(self, task, rollout, *, wait_for_grading, **others):
        if not self._losses:
            return await self._executor.run(task, rollout, wait_for_grading=wait_for_grading, **others)
        self._losses -= 1
        await wait_for_grading()
        await anyio.lowlevel.checkpoint()
        return WorkerLost("a worker died while it graded", 0.1)


async def test_a_rollout_whose_worker_died_in_grading_waits_for_a_slot_again(tmp_path):
    grader, events = Grader(), []
    grader.let_go.set()
    prepared = await prepared_run(grader, at_once=2)
    async with open_collector(prepared, tmp_path / "run", policies=policies(), sink=events.append) as collector:
        losing = replace(collector, executor=LosesGradings(collector.executor, losses=5))
        await losing.collect(prepared.plan)
        assert (collector.slots.in_flight, collector.slots.gradings.num_grading) == (0, 0)
    found = list(Run(tmp_path / "run"))
    assert Counter(trace.key for trace in found) == Counter((f"t{number}", 0) for number in range(8))
    assert sum(len(trace.attempts) for trace in found) == 5
    assert all(isinstance(trace.outcome, Scored) for trace in found)
    assert sum(isinstance(event, RolloutBegan) for event in events) == 8 + 5


class MeetsItsCap:
    """An executor that has no budget left after the first rollout."""

    def __init__(self, executor: Executor) -> None:
        self._executor = executor

    async def run(self, task, rollout, **others):
        if task.id == "t0":
            return await self._executor.run(task, rollout, **others)
        trace = Trace(run="r", task=task.id, rollout=rollout, seed=0, started=0.0)
        trace.outcome = Failed(Side.MODEL, "spend", "the cap is reached")
        return trace


async def test_what_is_paid_for_is_graded_before_a_cap_stops_the_run(tmp_path):
    grader, collection = Grader(), Collection()
    prepared = await prepared_run(grader, at_once=1)
    async with open_collector(prepared, tmp_path / "run", policies=policies(), collection=collection) as collector:
        capped = replace(collector, executor=MeetsItsCap(collector.executor))
        async with anyio.create_task_group() as group:
            group.start_soon(capped.collect, prepared.plan)
            await anyio.wait_all_tasks_blocked()
            assert (grader.at_work, collection.stopped) == (1, None)
            grader.let_go.set()
    assert collection.stopped == "the cap is reached"
    assert [trace.key for trace in Run(tmp_path / "run")] == [("t0", 0)]


async def test_what_waits_to_be_graded_when_the_run_stops_is_taken_again(tmp_path):
    grader, collection = Grader(), Collection()
    prepared = await prepared_run(grader, at_once=3)
    async with (
        open_collector(prepared, tmp_path / "run", policies=policies(), collection=collection) as collector,
        anyio.create_task_group() as group,
    ):
        group.start_soon(collector.collect, prepared.plan)
        await anyio.wait_all_tasks_blocked()
        collection.stop("interrupted")
    assert (len(Run(tmp_path / "run")), collection.num_cancelled, grader.at_work) == (0, 6, 0)
    grader.let_go.set()
    async with open_collector(prepared, tmp_path / "run", policies=policies()) as collector:
        await collector.collect(prepared.plan)
    assert Counter(trace.key for trace in Run(tmp_path / "run")) == Counter((f"t{number}", 0) for number in range(8))


async def test_a_larger_number_of_slots_lets_more_be_graded():
    slots = Slots(1)
    gradings = slots.gradings
    stays = [RolloutStay(slots) for _ in range(3)]

    async def play(stay: RolloutStay) -> None:
        await stay.begin()
        await stay.to_grading()

    async with anyio.create_task_group() as group:
        for stay in stays:
            group.start_soon(play, stay)
        await anyio.wait_all_tasks_blocked()
        assert (gradings.num_grading, gradings.num_waiting, slots.in_flight) == (1, 1, 1)
        slots.resize(3)
    assert (gradings.at_once, gradings.num_grading, slots.in_flight) == (3, 3, 0)
    for stay in stays:
        stay.end()
        stay.end()
    assert gradings.num_grading == 0


async def test_runs_that_share_a_room_are_graded_in_one_queue():
    slots = Slots(2)
    stays = [RolloutStay(each) for each in (slots, slots.share(most=1), slots.share())]
    async with anyio.create_task_group() as group:
        for stay in stays[:2]:
            await stay.begin()
            await stay.to_grading()
        await stays[2].begin()
        group.start_soon(stays[2].to_grading)
        await anyio.wait_all_tasks_blocked()
        assert (slots.gradings.num_grading, slots.gradings.num_waiting) == (2, 1)
        stays[0].end()
    assert slots.gradings.num_grading == 2


@st.composite
def ways(draw):
    """Of every rollout: how many steps it acts and is graded, how often grading fails, and whether it is cancelled in the end."""
    small = st.integers(0, 4)
    return draw(st.lists(st.tuples(small, small, st.integers(0, 2), st.booleans()), min_size=1, max_size=12))


@given(ways(), st.integers(1, 3), st.lists(st.sampled_from(["pause", "resume", 1, 2, 4]), max_size=8))
async def test_every_rollout_ends_once_within_the_bounds_whatever_happens_meanwhile(ways, at_once, changes):
    slots = Slots(at_once)
    gradings = slots.gradings
    most = max([at_once, *(change for change in changes if isinstance(change, int))])
    ended: Counter[int] = Counter()
    seen: list[tuple[int, int]] = []

    async def steps(number: int) -> None:
        for _ in range(number):
            seen.append((slots.in_flight, gradings.num_grading))
            await anyio.lowlevel.checkpoint()

    async def play(number: int, acts: int, grades: int, failures: int, is_cancelled: bool) -> None:
        stay = RolloutStay(slots)
        try:
            with anyio.CancelScope() as scope:
                for attempt in range(failures + 1):
                    await stay.begin()
                    await steps(acts)
                    await stay.to_grading()
                    if is_cancelled and attempt == failures:
                        scope.cancel()
                    await steps(grades)
                    await anyio.lowlevel.checkpoint()
                ended[number] += 1
        finally:
            stay.end()

    with anyio.fail_after(15):
        async with anyio.create_task_group() as group:
            for number, way in enumerate(ways):
                group.start_soon(play, number, *way)
            for change in changes:
                await anyio.lowlevel.checkpoint()
                if isinstance(change, int):
                    slots.resize(change)
                else:
                    {"pause": slots.pause, "resume": slots.resume}[change]()
            slots.resume()
    assert ended == Counter(number for number, (*_, is_cancelled) in enumerate(ways) if not is_cancelled)
    assert (slots.in_flight, slots.demand.unplanned, gradings.num_grading, gradings.num_waiting) == (0, 0, 0, 0)
    assert all(flying <= most and grading <= most for flying, grading in seen)
