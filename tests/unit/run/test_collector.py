"""The collector: a rollout counts once it is stored, and one stop ends everything that is under way."""

from contextlib import asynccontextmanager, nullcontext
from dataclasses import replace
from pathlib import Path

import anyio
import pytest

from sandlot import Ask, Environment, Limits, Score, Task, environment
from sandlot.core.errors import ConfigError, SandboxError, StoreError
from sandlot.core.trace import Failed, Scored
from sandlot.model.policy.scripted import scripted_policies
from sandlot.observe.event_log import EventReader
from sandlot.observe.events import RolloutBegan, RolloutEnded, RunBegan, RunEnded
from sandlot.run.breaker import Breaker
from sandlot.run.collector import MOST_LOST, Collection, Collector, open_collector
from sandlot.run.config import RunConfig, Selection
from sandlot.run.control import RunOrder
from sandlot.run.executors.executor import Executor, ExecutorLoad, WorkerLost
from sandlot.run.prepare import prepare_run
from sandlot.run.results import Run
from sandlot.wiring.config import ModelConfig
from sandlot.wiring.parts import Players


@environment("add", tasks=3)
def add(rng):
    a, b = rng.randrange(100), rng.randrange(100)
    answer = yield Ask(f"What is {a}+{b}?", golden=str(a + b))
    yield Score(answer == str(a + b))


def golden(env: Environment):
    return scripted_policies("golden", env.marked.solution)


@asynccontextmanager
async def opened(path: Path, env: Environment = add, **fields):
    config = RunConfig(env=env.name, model=ModelConfig(spec="scripted:golden"), **fields)
    prepared = await prepare_run(env, config)
    events = []
    async with open_collector(prepared, path, policies=nullcontext(golden(env)), sink=events.append) as collector:
        yield collector, events


async def test_a_plan_is_collected_and_every_rollout_is_stored_before_its_event(tmp_path):
    async with opened(tmp_path / "run", select=Selection(group=2)) as (collector, events):
        await collector.collect(collector.prepared.plan)
        stored = [(event.task, event.rollout) in collector.store for event in events if isinstance(event, RolloutEnded)]
    assert stored == [True] * 6
    assert Run(tmp_path / "run").verdict == "complete"
    kinds = [type(event) for event in events]
    assert (kinds[0], kinds[-1], kinds.count(RolloutBegan)) == (RunBegan, RunEnded, 6)
    assert [type(event) for event in EventReader(tmp_path / "run")] == kinds


async def test_single_rollouts_of_a_plan_are_not_taken_again(tmp_path):
    async with opened(tmp_path / "run", select=Selection(group=2)) as (collector, events):
        first = await collector.take(collector.prepared.tasks[0], 1, lambda: Players(golden(add)))
        assert first is not None
        assert (first.task, 1) in collector.store
        await collector.collect(collector.prepared.plan)
    ended = [(event.task, event.rollout) for event in events if isinstance(event, RolloutEnded)]
    assert len(ended) == len(set(ended)) == 6


class ComesBack:
    """An executor whose workers leave, as often as told, and give the rollout back."""

    def __init__(self, executor: Executor, returns: int, *, returned: bool = True) -> None:
        self._executor, self._returns, self.load = executor, returns, ExecutorLoad(2, 5)
        self._returned = returned
        self.alone = []

    async def run(self, task, rollout, *, alone, **others):
        self.alone.append(alone)
        if not self._returns:
            return await self._executor.run(task, rollout, **others)
        self._returns -= 1
        return WorkerLost("a worker left", 0.1, returned=self._returned)


class HearsOnly(Breaker):
    """A breaker that keeps what it was told."""

    def __init__(self) -> None:
        super().__init__()
        self.heard = []

    def end(self, place, rollout, failures, crashes=()):
        self.heard.append(dict(failures))
        return super().end(place, rollout, failures, crashes)


async def test_a_rollout_that_workers_return_is_taken_again_as_often_as_they_leave(tmp_path):
    env, events = broken([SandboxError("the sandbox failed")]), []
    prepared = await prepare_run(env, RunConfig(env=env.name, model=ModelConfig(spec="scripted:noop")))
    noop = nullcontext(scripted_policies("noop", None))
    async with open_collector(prepared, tmp_path / "run", policies=noop, sink=events.append) as collector:
        executor = ComesBack(collector.executor, returns=MOST_LOST + 3)
        await replace(collector, executor=executor).collect(prepared.plan)
    (trace,) = Run(tmp_path / "run")
    assert isinstance(trace.outcome, Scored)
    kinds = [(attempt.outcome.side, attempt.outcome.kind) for attempt in trace.attempts]
    assert kinds == [("harness", "returned")] * (MOST_LOST + 3) + [("sandbox", "crash")], "and the sandbox had its second attempt"
    assert sum(isinstance(event, RolloutBegan) for event in events) == len(kinds) + 1
    assert not any(executor.alone), "it has killed nobody"


LOST_AT = [("died", "sandbox"), ("crash", "sandbox"), ("died", "harness"), ("returned", "harness")]


@pytest.mark.parametrize(("kind", "side"), LOST_AT)
async def test_the_breaker_counts_sandboxes_that_died_but_not_workers(tmp_path, kind, side):
    env = broken([SandboxError("it is gone", kind=kind)] if side == "sandbox" else [])
    prepared = await prepare_run(env, RunConfig(env=env.name, model=ModelConfig(spec="scripted:noop")))
    async with open_collector(prepared, tmp_path / "run", policies=nullcontext(scripted_policies("noop", None))) as collector:
        executor = ComesBack(collector.executor, returns=int(side == "harness"), returned=kind == "returned")
        seen = replace(collector, executor=executor, breaker=HearsOnly())
        await seen.collect(prepared.plan)
    (trace,) = Run(tmp_path / "run")
    assert [(each.outcome.side, each.outcome.kind) for each in trace.attempts] == [(side, kind)]
    assert seen.breaker.heard == [{"sandbox": "it is gone"} if side == "sandbox" else {}]


async def test_the_status_says_how_many_workers_there_are_and_whether_more_would_help(tmp_path):
    async with opened(tmp_path / "run") as (collector, _):
        status = replace(collector, executor=ComesBack(collector.executor, 0)).obey(RunOrder(do="status"))
        assert (status.workers, status.waiting) == (2, 5)
        here = collector.obey(RunOrder(do="status"))
        assert (here.workers, here.waiting) == (None, 0)


def broken(failures: list[SandboxError]) -> Environment:
    """An environment whose sandbox fails as often as `failures` has entries."""
    env = Environment("broken", limits=Limits(turns=1))

    @env.tasks
    def tasks(rng):
        yield Task("only", prompt="Say anything.")

    @env.setup
    async def setup(world, task):
        if failures:
            raise failures.pop()

    @env.check(points=1)
    def fine(evidence, task):
        return True

    return env


@pytest.mark.parametrize(("attempts", "outcome", "num_began"), [(None, Scored, 2), (1, Failed, 1)])
async def test_failed_infrastructure_is_tried_again_unless_only_one_attempt_is_allowed(tmp_path, attempts, outcome, num_began):
    env = broken([SandboxError("the machine is gone")])
    config = RunConfig(env=env.name, model=ModelConfig(spec="scripted:noop"))
    events = []
    async with open_collector(await prepare_run(env, config), tmp_path / "run", sink=events.append) as collector:
        trace = await collector.take(
            collector.prepared.tasks[0], 0, lambda: Players(scripted_policies("noop", None)), attempts=attempts
        )
    assert trace is not None
    assert isinstance(trace.outcome, outcome)
    assert [event.attempt for event in events if isinstance(event, RolloutBegan)] == list(range(1, num_began + 1))


async def test_policies_are_chosen_when_there_is_room_and_not_before(tmp_path):
    chosen = []

    def choose():
        chosen.append(True)
        return Players(golden(add))

    async with opened(tmp_path / "run", at_once=1) as (collector, _), anyio.create_task_group() as group:
        other = await collector.slots.enter()
        group.start_soon(collector.take, collector.prepared.tasks[0], 0, choose)
        await anyio.wait_all_tasks_blocked()
        assert not chosen
        collector.slots.leave(other)
    assert chosen == [True]


async def test_a_stopped_run_takes_nothing_more_and_says_why(tmp_path):
    async with opened(tmp_path / "run") as (collector, events):
        collector.collection.stop("enough", tripped=True)
        collector.collection.stop("a second reason")
        await collector.collect(collector.prepared.plan)
    assert len(Run(tmp_path / "run")) == 0
    assert (events[-1].stopped, events[-1].tripped) == ("enough", True)


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (StoreError("the disk is full"), "StoreError: the disk is full"),
        (ExceptionGroup("several", [ExceptionGroup("one", [ValueError("odd")])]), "ValueError: odd"),
        (KeyboardInterrupt(), "interrupted"),
    ],
)
async def test_an_error_that_ends_a_run_is_in_its_last_event(tmp_path, error, reason):
    async def fail() -> None:
        async with opened(tmp_path / "run"):
            raise error

    caught: list[BaseException] = []
    try:
        await fail()
    except BaseException as raised:  # noqa: BLE001 - also the one that would end the tests
        caught.append(raised)
    assert caught == [error]
    *_, last = EventReader(tmp_path / "run")
    assert isinstance(last, RunEnded)
    assert (last.stopped, last.tripped) == (reason, False)


async def test_a_cancelled_run_says_so_in_its_last_event(tmp_path):
    with anyio.CancelScope() as scope:
        async with opened(tmp_path / "run") as (_, events):
            scope.cancel()
            await anyio.sleep_forever()
    assert events[-1].stopped == "interrupted"


async def test_a_collector_without_policies_takes_no_plan(tmp_path):
    config = RunConfig(env=add.name, model=ModelConfig(spec="scripted:golden"))
    async with open_collector(await prepare_run(add, config), tmp_path / "run") as collector:
        with pytest.raises(ConfigError, match="opened without policies; open it with `policies="):
            await collector.collect(collector.prepared.plan)
    assert len(Run(tmp_path / "run")) == 0


async def test_one_stop_ends_every_block_under_way_but_not_one_that_was_released():
    collection, ended = Collection(), []

    async def wait(name: str) -> None:
        with collection.until_stopped():
            await anyio.sleep_forever()
        ended.append(name)

    with collection.until_stopped() as opening:
        collection.release(opening)
        async with anyio.create_task_group() as group:
            group.start_soon(wait, "one")
            group.start_soon(wait, "two")
            await anyio.wait_all_tasks_blocked()
            collection.stop("enough")
        await anyio.lowlevel.checkpoint()
        ended.append("released")
    assert sorted(ended) == ["one", "released", "two"]


async def test_a_run_beside_another_has_the_same_parts_and_a_stop_of_its_own(tmp_path):
    async with opened(tmp_path / "run") as (collector, _):
        config = RunConfig(env=add.name, model=ModelConfig(spec="scripted:golden"))
        prepared = await prepare_run(add, config, name="other/evaluation")
        async with collector.open_beside(prepared, tmp_path / "beside", Players(golden(add))) as beside:
            assert isinstance(beside, Collector)
            assert beside.parts.grading is collector.parts.grading
            await beside.collect(prepared.plan)
            beside.collection.stop("enough")
        assert collector.collection.stopped is None
    run = Run(tmp_path / "beside")
    assert {trace.run for trace in run} == {"other/evaluation"}
    assert len(run) == 3


async def test_a_model_that_is_refused_leaves_no_directory(tmp_path):
    @asynccontextmanager
    async def refused():
        raise ConfigError("no such model")
        yield

    prepared = await prepare_run(add, RunConfig(env=add.name, model=ModelConfig(spec="scripted:golden")))
    with pytest.raises(ConfigError, match="no such model"):
        async with open_collector(prepared, tmp_path / "run", policies=refused()):
            pass
    assert not (tmp_path / "run").exists()
