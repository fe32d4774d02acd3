"""Workers that die, wherever they are: worker processes, and Ray actors where Ray is installed (`make test-ray`)."""

import os
import signal
from contextlib import asynccontextmanager

import anyio
import msgspec
import pytest

from sandlot.core.errors import ConfigError
from sandlot.core.trace import Cancelled, Failed, Scored, Trace
from sandlot.core.types import End
from sandlot.observe.events import RolloutBegan
from sandlot.run.config import RunConfig, Selection
from sandlot.run.executors import pool as pools
from sandlot.run.executors.executor import WorkerLost
from sandlot.run.executors.messages import EvidenceStored, RolloutDone
from sandlot.run.executors.pool import MOST_DEATHS, WorkerPool
from sandlot.run.run import run_config
from sandlot.store.blobs import MemoryBlobs
from sandlot.wiring.config import ModelConfig
from worlds.executors import CHORES, ELSEWHERE, chores, config_of, opened, plan_of

pytestmark = pytest.mark.timeout(300)


def nothing(event) -> None: ...


def chosen(*kinds: str, group: int = 1, **changed) -> RunConfig:
    tasks = tuple(task.id for kind in kinds for task in chores(kind))
    return config_of(select=Selection(tasks=tasks, group=group), **changed)


@pytest.fixture(params=ELSEWHERE)
def kind(request) -> str:
    return request.param


async def test_the_rollouts_of_a_worker_that_is_killed_are_lost_and_another_takes_the_next_ones(kind, tmp_path, monkeypatch):
    monkeypatch.setenv("MARKS", str(tmp_path))
    found = []

    async def one(task):
        found.append(await executor.run(task, 0, run="r", blobs=MemoryBlobs(), sink=nothing))

    async with opened(kind, plan_of(tmp_path), number=1) as executor:
        first = set(executor.pids)
        async with anyio.create_task_group() as group:
            for task in chores("endless"):
                group.start_soon(one, task)
            while len(list(tmp_path.glob("began-*"))) < 4:  # noqa: ASYNC110 - another process makes them
                await anyio.sleep(0.02)
            for pid in first:
                os.kill(pid, signal.SIGKILL)
        assert [type(each) for each in found] == [WorkerLost] * 4
        assert all("ended" in lost.reason for lost in found)
        trace = await executor.run(chores("short")[0], 0, run="r", blobs=MemoryBlobs(), sink=nothing)
        assert trace.reward == 1.0
        assert not first & set(executor.pids)


async def test_a_run_elsewhere_is_the_same_as_here(kind, tmp_path):
    config = chosen("short", "broken", group=4, model="scripted:mixed:0.5", seed=3)
    rows = {}
    for name, on in (("here", "local"), ("there", ELSEWHERE[kind].format(2))):
        run = await run_config(config, runs=tmp_path / name, on=on)
        rows[name] = sorted((row.task, row.rollout, row.outcome, row.score, row.side, row.turns) for row in run.rows)
        assert run.sittings[-1].on == on
        for trace in run:
            for file in trace.evidence.files.values() if trace.evidence else ():
                assert len(run.reader.blobs.read(file.blob)) == file.size
    assert rows["here"] == rows["there"]
    assert len(rows["here"]) == 32


async def test_half_a_character_from_a_model_is_stored_as_here(kind, tmp_path):
    file = tmp_path / "chores.py"
    file.write_text(CHORES.read_text().replace('agent.say("done")', 'agent.say("half an emoji \\ud83d")'))
    config = msgspec.structs.replace(config_of(select=Selection(tasks=("short-0",))), env=str(file))
    said = []
    for on in ("local", ELSEWHERE[kind].format(1)):
        (trace,) = await run_config(config, runs=tmp_path / on.partition(":")[0], on=on)
        said.append((trace.reward, trace.path()[-1].message.text))
    assert said == [(1.0, "half an emoji \\ud83d")] * 2


async def test_a_rollout_whose_worker_died_is_taken_again_and_says_so(kind, tmp_path, monkeypatch):
    monkeypatch.setenv("MARKS", str(tmp_path))
    began = []

    def note(event) -> None:
        if isinstance(event, RolloutBegan):
            began.append((event.task, event.rollout))

    tasks = ("deadly-0", *(task.id for task in chores("short")))
    config = config_of(select=Selection(tasks=tasks))
    run = await run_config(config, runs=tmp_path / "runs", sink=note, on=ELSEWHERE[kind].format(1))
    traces = list(run)
    assert sorted(trace.task for trace in traces) == sorted(tasks)
    assert all(isinstance(trace.outcome, Scored) and trace.reward == 1.0 for trace in traces)
    assert run.verdict == "complete"
    lost = [attempt for trace in traces for attempt in trace.attempts]
    assert {(attempt.outcome.side, attempt.outcome.kind) for attempt in lost} == {("harness", "died")}
    assert "deadly-0" in {trace.task for trace in traces if trace.attempts}
    assert len(began) == len(traces) + len(lost), "every attempt is either an end or a loss"


async def test_a_rollout_that_kills_every_worker_fails_without_a_score_and_does_not_fail_those_beside_it(kind, tmp_path):
    """One worker for all: without a worker of their own they would be lost as often as the one that kills."""
    config = config_of(select=Selection(tasks=("doomed-0", *(task.id for task in chores("long")))))
    run = await run_config(config, runs=tmp_path, on=ELSEWHERE[kind].format(1))
    traces = {trace.task: trace for trace in run}
    assert {task: trace.reward for task, trace in traces.items()} == {"doomed-0": None, **{t.id: 1.0 for t in chores("long")}}
    doomed = traces["doomed-0"]
    assert isinstance(doomed.outcome, Failed)
    assert (doomed.outcome.side, doomed.outcome.kind, len(doomed.attempts)) == ("harness", "died", 3)


async def test_workers_that_only_die_stop_the_run_with_the_reason(kind, tmp_path, monkeypatch):
    monkeypatch.setattr(pools, "MOST_DEATHS", 2)
    run = await run_config(chosen("doomed", group=8, at_once=2), runs=tmp_path, on=ELSEWHERE[kind].format(1))
    assert run.verdict == "stopped"
    assert "2 workers ended one after the other, and no rollout did" in run.sittings[-1].stopped
    assert all(row.score is None for row in run.rows)


async def test_a_run_goes_on_elsewhere_than_it_began(kind, tmp_path):
    config = chosen("short", "long", group=4)
    with anyio.move_on_after(0.0):  # nothing yet: only the directory
        await run_config(config, place=tmp_path / "run", on=ELSEWHERE[kind].format(1))
    seen = []

    def stop(event) -> None:
        seen.append(event)
        if sum(isinstance(each, RolloutBegan) for each in seen) == 10:
            os.kill(os.getpid(), signal.SIGINT)

    first = await run_config(config, place=tmp_path / "run", on=ELSEWHERE[kind].format(1), sink=stop)
    assert "interrupted" in first.sittings[-1].stopped
    assert first.verdict == "incomplete"
    second = await run_config(config, place=tmp_path / "run", on="local")
    assert second.verdict == "complete"
    keys = [(row.task, row.rollout) for row in second.rows]
    assert len(keys) == len(set(keys)) == 32


async def test_an_environment_that_was_changed_since_is_refused(kind, tmp_path):
    file = tmp_path / "chores.py"
    file.write_text(CHORES.read_text())
    config = RunConfig(env=str(file), model=ModelConfig(spec="scripted:golden"), select=Selection(tasks=("short-0",)))
    plan = plan_of(tmp_path, config)
    file.write_text(CHORES.read_text().replace("this chore", "that chore"))
    with pytest.raises(ConfigError, match="differs from the one that the run began with"):
        async with opened(kind, plan, number=1):
            pass


async def test_what_a_worker_refuses_leaves_no_run_behind(kind, tmp_path):
    with pytest.raises(ConfigError, match="no-such"):
        await run_config(chosen("short", model="hf:/no-such-folder"), runs=tmp_path / "runs", on=ELSEWHERE[kind].format(1))
    assert not list((tmp_path / "runs").glob("*/manifest.json"))


class Machine:
    """Twelve workers on a machine that fails once, with all of them; those that come after it take rollouts."""

    pid = 1

    def __init__(self) -> None:
        self.num_started = 0
        self.fails = anyio.Event()

    @asynccontextmanager
    async def start(self):
        self.num_started += 1
        yield FailingLink(self.fails) if self.num_started <= 12 else AnsweringLink()


class FailingLink:
    """A worker that hears orders, stores evidence, and is lost with its machine."""

    pid = 1
    at_once = None

    def __init__(self, fails: anyio.Event) -> None:
        self._fails, self._heard = fails, anyio.Event()

    async def send(self, message) -> None:
        self.number = message.number
        self._heard.set()

    async def messages(self):
        await self._heard.wait()
        yield EvidenceStored(number=self.number)
        await self._fails.wait()

    async def describe_end(self) -> str:
        return "a machine was lost"


class AnsweringLink(FailingLink):
    """A worker that finishes what it is told to take."""

    def __init__(self) -> None:
        super().__init__(anyio.Event())

    async def messages(self):
        await self._heard.wait()
        trace = Trace(run="r", task="short-0", rollout=0, seed=0, end=End.DONE, outcome=Cancelled())
        yield RolloutDone(number=self.number, trace=trace, blobs=())
        await anyio.sleep_forever()


async def test_a_machine_that_is_lost_with_many_workers_does_not_stop_the_run():
    """All are lost at once, while they wait for a place in a full grading queue, and none waits on."""
    machine, stopped, found = Machine(), [], []
    pool = WorkerPool(stopped.append)
    num_waiting = 0

    async def one() -> None:
        async def wait_for_grading() -> None:
            nonlocal num_waiting
            num_waiting += 1
            await anyio.sleep_forever()

        found.append(
            await pool.run(chores("short")[0], 0, run="r", blobs=MemoryBlobs(), sink=nothing, wait_for_grading=wait_for_grading)
        )

    async with anyio.create_task_group() as group:
        for _ in range(12):
            await group.start(pool.keep, machine.start)
        pool.begin()
        async with anyio.create_task_group() as rollouts:
            for _ in range(12):
                rollouts.start_soon(one)
            await anyio.wait_all_tasks_blocked()
            machine.fails.set()
        assert ([type(each) for each in found], num_waiting) == ([WorkerLost] * 12, 12)
        trace = await pool.run(chores("short")[0], 0, run="r", blobs=MemoryBlobs(), sink=nothing)
        assert (trace.task, stopped) == ("short-0", [])
        group.cancel_scope.cancel()


class DyingLink(FailingLink):
    """A worker that dies of the first rollout, or after it."""

    def __init__(self, answers: bool) -> None:
        super().__init__(anyio.Event())
        self._answers = answers

    async def messages(self):
        await self._heard.wait()
        if self._answers:
            trace = Trace(run="r", task="short-0", rollout=0, seed=0, end=End.DONE, outcome=Cancelled())
            yield RolloutDone(number=self.number, trace=trace, blobs=())


@pytest.mark.parametrize("one_answers", [False, True])
async def test_a_run_is_stopped_where_so_many_workers_end_one_after_the_other_and_none_answers(one_answers):
    stopped, num_started, num_taken = [], 0, 0

    @asynccontextmanager
    async def start():
        nonlocal num_started
        num_started += 1
        yield DyingLink(one_answers and num_started % (MOST_DEATHS - 1) == 0)

    workers = WorkerPool(stopped.append)
    async with anyio.create_task_group() as group:
        await group.start(workers.keep, start)
        workers.begin()
        while not stopped and num_taken < 3 * MOST_DEATHS:
            await workers.run(chores("short")[0], 0, run="r", blobs=MemoryBlobs(), sink=nothing)
            num_taken += 1
            await anyio.wait_all_tasks_blocked()
        group.cancel_scope.cancel()
    assert (len(stopped), num_taken) == ((0, 3 * MOST_DEATHS) if one_answers else (1, MOST_DEATHS))


class BreakingLink(FailingLink):
    """A worker whose link fails as none should."""

    async def messages(self):
        await self._heard.wait()
        raise MemoryError
        yield


async def test_rollouts_are_lost_and_do_not_hang_when_a_link_fails_as_none_should():
    pool, found = WorkerPool(nothing), []

    async def adopt() -> None:
        with pytest.raises(MemoryError):
            await pool.adopt(BreakingLink(anyio.Event()))

    with anyio.fail_after(20):
        async with anyio.create_task_group() as group:
            group.start_soon(adopt)
            found.append(await pool.run(chores("short")[0], 0, run="r", blobs=MemoryBlobs(), sink=nothing))
    assert [each.reason for each in found] == ["a worker could not be heard any more while it took the rollout"]


async def test_a_rollout_that_waits_for_a_worker_of_its_own_is_counted_as_waiting():
    pool, ends = WorkerPool(nothing), anyio.Event()

    async def one(alone: bool) -> None:
        await pool.run(chores("short")[0], 0, run="r", blobs=MemoryBlobs(), sink=nothing, alone=alone)

    async with anyio.create_task_group() as group:
        group.start_soon(one, False)
        group.start_soon(one, True)
        await anyio.wait_all_tasks_blocked()
        assert (pool.load.num_workers, pool.load.num_waiting) == (0, 2)
        group.start_soon(pool.adopt, FailingLink(ends))
        await anyio.wait_all_tasks_blocked()
        assert (pool.load.num_workers, pool.load.num_waiting) == (1, 1), "the worker is not empty yet"
        ends.set()
        await anyio.wait_all_tasks_blocked()
        group.start_soon(pool.adopt, FailingLink(anyio.Event()))
        await anyio.wait_all_tasks_blocked()
        assert (pool.load.num_workers, pool.load.num_waiting) == (1, 0)
        group.cancel_scope.cancel()
