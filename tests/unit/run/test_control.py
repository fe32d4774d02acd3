"""Steering a run from outside: what each order does, and that nothing that comes over the socket harms the run."""

import os
import socket
import stat
from contextlib import asynccontextmanager, nullcontext
from pathlib import Path

import anyio
import anyio.lowlevel
import anyio.to_thread
import pytest

import sandlot
from sandlot import Environment, Limits, Task
from sandlot.core.errors import ConfigError
from sandlot.model.policy.scripted import scripted_policies
from sandlot.observe.event_log import EventReader
from sandlot.observe.events import RolloutBegan, RolloutsRequeued, RunSteered
from sandlot.run.collector import open_collector
from sandlot.run.config import RunConfig, RunPlan
from sandlot.run.control import FILE, RunOrder, RunStatus, requeue_ended, running_runs, tell_run
from sandlot.run.follow import Follower
from sandlot.run.prepare import prepare_run
from sandlot.run.results import Run
from sandlot.store.aside import rows_set_aside
from sandlot.wiring.config import ModelConfig


class Gate:
    """Holds rollouts where they begin, until as many are let through; fails those that are named."""

    def __init__(self) -> None:
        self.let = anyio.Semaphore(0)
        self.failing: set[str] = set()
        self.begun: list[str] = []


def gated(gate: Gate, num_tasks: int = 6) -> Environment:
    env = Environment("gated", limits=Limits(turns=1))

    @env.tasks
    def tasks(rng):
        for number in range(num_tasks):
            yield Task(f"t{number}", prompt="Say anything.")

    @env.setup
    async def setup(world, task):
        gate.begun.append(task.id)
        await gate.let.acquire()

    @env.check(points=1)
    def fine(evidence, task):
        if task.id in gate.failing:
            raise ValueError("broken")
        return True

    return env


@asynccontextmanager
async def going(path: Path, gate: Gate, **fields):
    """A run that is under way; at the end everything is let through, and it ends."""
    env = gated(gate)
    config = RunConfig(env=env.name, model=ModelConfig(spec="scripted:noop"), **fields)
    policies = nullcontext(scripted_policies("noop", None))
    async with (
        open_collector(await prepare_run(env, config), path, policies=policies) as collector,
        anyio.create_task_group() as group,
    ):
        group.start_soon(collector.collect, collector.prepared.plan)
        await anyio.wait_all_tasks_blocked()
        yield collector
        for _ in range(30):
            gate.let.release()


async def told(path: Path, do: str, **more: int) -> RunStatus:
    status = await anyio.to_thread.run_sync(tell_run, path, RunOrder(do=do, **more))
    await anyio.wait_all_tasks_blocked()
    return status


async def test_a_paused_run_starts_nothing_finishes_what_is_in_flight_and_goes_on_when_resumed(tmp_path):
    gate = Gate()
    async with going(tmp_path / "run", gate, at_once=2):
        status = await told(tmp_path / "run", "pause")
        assert (status.state, status.in_flight, status.done, status.planned) == ("paused", 2, 0, 6)
        for _ in range(10):
            gate.let.release()
        with anyio.fail_after(10):
            while (await told(tmp_path / "run", "status")).in_flight:
                pass
        assert len(gate.begun) == 2
        assert (await told(tmp_path / "run", "resume")).state == "running"
    assert Run(tmp_path / "run").verdict == "complete"
    steered = [(event.order, event.paused) for event in EventReader(tmp_path / "run") if isinstance(event, RunSteered)]
    assert steered == [("pause", True), ("resume", False)]


async def test_more_rollouts_start_at_once_when_they_may_and_fewer_when_they_may_not(tmp_path):
    gate = Gate()
    async with going(tmp_path / "run", gate, at_once=1):
        assert (await told(tmp_path / "run", "set", at_once=4)).at_once == 4
        assert (await told(tmp_path / "run", "status")).in_flight == 4
        assert (await told(tmp_path / "run", "set", at_once=1)).in_flight == 4
    assert len(Run(tmp_path / "run")) == 6


async def test_a_stopped_run_is_incomplete_and_the_same_command_continues_it(tmp_path):
    gate = Gate()
    async with going(tmp_path / "run", gate, at_once=2):
        gate.let.release()
        await told(tmp_path / "run", "pause")
        assert (await told(tmp_path / "run", "stop")).state == "stopping"
    run = Run(tmp_path / "run")
    assert run.verdict == "incomplete"
    *_, last = EventReader(run.path)
    assert last.stopped == "stopped by `sandlot stop`; repeat the command to continue"
    gate.begun.clear()
    num_stored = len(run)
    async with going(tmp_path / "run", gate, at_once=8):
        pass
    assert len(gate.begun) == 6 - num_stored
    assert Run(tmp_path / "run").verdict == "complete"


async def test_failed_rollouts_are_taken_again_when_the_others_are_done(tmp_path):
    gate = Gate()
    gate.failing = {"t1", "t4"}
    async with going(tmp_path / "run", gate, at_once=1) as collector:
        follower = Follower(tmp_path / "run", fresh_s=0)
        assert (await told(tmp_path / "run", "requeue")).requeued
        for _ in range(6):
            gate.let.release()
        with anyio.fail_after(10):
            while len(gate.begun) < 7:
                await anyio.lowlevel.checkpoint()
        gate.failing.clear()
        assert len(collector.store) == 4
    run = Run(tmp_path / "run")
    assert sorted(row.task for row in run.rows) == sorted(f"t{number}" for number in range(6))
    assert {row.outcome for row in run.rows} == {"scored"}
    assert sorted(row.task for row in rows_set_aside(run.path)) == ["t1", "t4"]
    events = list(EventReader(run.path))
    assert [event.count for event in events if isinstance(event, RolloutsRequeued)] == [2]
    assert sum(isinstance(event, RolloutBegan) for event in events) == 8
    state = follower.look()
    assert (state.rollouts, state.failed, state.score) == (6, 0, 1.0), "a rollout that is taken again counts once"


async def test_only_rollouts_of_the_plan_are_taken_again_and_none_of_a_run_that_stops(tmp_path):
    gate, run = Gate(), tmp_path / "run"
    gate.failing = {"t0", "t1"}
    async with going(run, gate):
        pass
    gate.failing.clear()
    config = RunConfig(env="gated", model=ModelConfig(spec="scripted:noop"))
    policies = nullcontext(scripted_policies("noop", None))
    async with open_collector(await prepare_run(gated(gate), config), run, policies=policies) as collector:
        await told(run, "requeue")
        gate.let.release()
        await collector.collect(RunPlan(collector.prepared.tasks[:1], (1,)))  # as a calibration's later wave
        await told(run, "stop")
        with pytest.raises(ConfigError, match="the run is stopping"):
            await told(run, "requeue")
    assert [row.task for row in rows_set_aside(run)] == ["t0"]
    assert sorted(row.task for row in Run(run).rows if row.outcome == "failed") == ["t1"]


async def test_failed_rollouts_of_an_ended_run_are_set_aside_for_its_command(tmp_path):
    gate = Gate()
    gate.failing = {"t2"}
    async with going(tmp_path / "run", gate):
        pass
    assert (requeue_ended(tmp_path / "run"), requeue_ended(tmp_path / "run")) == (1, 0)
    assert Run(tmp_path / "run").verdict == "incomplete"
    gate.failing.clear()
    async with going(tmp_path / "run", gate):
        pass
    assert Run(tmp_path / "run").summary().score.value == 1.0


async def test_a_collector_without_a_plan_requeues_nothing(tmp_path):
    config = RunConfig(env="gated", model=ModelConfig(spec="scripted:noop"))
    async with open_collector(await prepare_run(gated(Gate()), config), tmp_path / "run"):
        with pytest.raises(ConfigError, match="a training takes no rollout again"):
            await told(tmp_path / "run", "requeue")
        assert (await told(tmp_path / "run", "status")).planned is None


def sent(path: Path, data: bytes) -> bytes:
    """What the run answers to bytes of anyone who can open its socket."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(10)
        connection.connect(str(path / FILE))
        try:
            connection.sendall(data)
            connection.shutdown(socket.SHUT_WR)
            return connection.recv(10_000)
        except (BrokenPipeError, ConnectionResetError):
            return b""


@pytest.mark.parametrize(
    ("data", "answer"),
    [
        (b"", b""),
        (b'{"do": "pause"', b""),
        (b"GET / HTTP/1.1\r\n\r\n\n", b"malformed"),
        (b'{"do": "explode"}\n', b"Invalid enum value"),
        (b'{"do": "pause", "also": 1}\n', b"unknown field"),
        (b'{"do": "set"}\n', b"needs `at_once`"),
        (b'{"do": "set", "at_once": 0}\n', b"from 1 to"),
        (b'{"do": "set", "at_once": 1000000000}\n', b"from 1 to"),
        (b'{"do": "set", "at_once": "\\u0000"}\n', b"Expected"),
        (b'{"do": "stop", "at_once": 2}\n', b"nothing else takes it"),
        (b'{"do": "approve"}\n', b"need `held`"),
        (b'{"do": "pause", "held": "1"}\n', b"nothing else takes them"),
        (b'{"do": "change", "held": "1"}\n', b"needs `calls`"),
        (b'{"do": "change", "held": "1", "calls": [{"name": 1}]}\n', b"Expected `str`"),
        (b'{"do": "approve", "held": "1"}\n', b"no turn waits for a person in this run"),
        (b"\xff\xfe\n", b"problem"),
        (b"[" * 65_536 + b"\n", b"longer than"),
    ],
)
async def test_what_is_no_order_is_refused_and_changes_nothing(tmp_path, data, answer):
    async with going(tmp_path / "run", Gate(), at_once=3):
        before = await told(tmp_path / "run", "status")
        found = await anyio.to_thread.run_sync(sent, tmp_path / "run", data)
        assert answer in found
        assert bool(answer) == bool(found)
        assert await told(tmp_path / "run", "status") == before
    assert Run(tmp_path / "run").verdict == "complete"


async def test_the_socket_is_the_users_alone_and_gone_when_the_run_has_ended(tmp_path):
    deep = tmp_path / ("long" * 30) / ("name" * 30)
    async with going(deep, Gate()):
        found = (deep / FILE).stat()
        assert stat.S_ISSOCK(found.st_mode)
        assert (stat.S_IMODE(found.st_mode), found.st_uid) == (0o600, os.getuid())
        assert [status.run for status in await anyio.to_thread.run_sync(running_runs, deep.parent)] == [deep.name]
    assert not (deep / FILE).exists()
    with pytest.raises(ConfigError, match="is not running here") as refused:
        tell_run(deep, RunOrder(do="pause"))
    assert refused.value.kind == "not running"
    assert running_runs(deep.parent) == []


async def test_what_a_killed_process_left_is_replaced(tmp_path):
    async with going(tmp_path / "run", Gate()):
        pass
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(tmp_path / "run" / FILE))
    with pytest.raises(ConfigError, match="is not running"):
        tell_run(tmp_path / "run", RunOrder(do="status"))
    async with going(tmp_path / "run", Gate()):
        assert (await told(tmp_path / "run", "status")).pid == os.getpid()


async def test_a_run_that_can_open_no_socket_runs_all_the_same(tmp_path, caplog):
    (tmp_path / "run").mkdir()
    async with going(tmp_path / "run", Gate()):
        pass
    (tmp_path / "run" / FILE).mkdir()
    async with going(tmp_path / "run", Gate()):
        pass
    assert "cannot be steered" in caplog.text
    assert (tmp_path / "run" / FILE).is_dir()


def test_an_answer_that_is_none_is_said_to_be_none(tmp_path):
    (tmp_path / "manifest.json").write_text("{}")
    with socket.socket(socket.AF_UNIX) as false, socket.socket(socket.AF_UNIX) as _:
        false.bind(str(tmp_path / FILE))
        false.listen()
        with anyio.from_thread.start_blocking_portal() as portal:
            asked = portal.start_task_soon(anyio.to_thread.run_sync, tell_run, tmp_path, RunOrder(do="status"))
            connection, _ = false.accept()
            with connection:
                connection.recv(100)
                connection.sendall(b'{"status": {"run": "\\u001b[2J"}}\n')
            with pytest.raises(ConfigError, match="gave an answer that is none"):
                asked.result(10)


def test_a_run_of_the_python_call_can_be_steered_too(tmp_path):
    seen = []

    def look(event) -> None:
        if isinstance(event, RolloutBegan):
            seen.extend(place.name for place in tmp_path.glob(f"*/{FILE}"))

    sandlot.run("arithmetic", "scripted:golden", rollouts=1, runs=tmp_path, sink=look)
    assert seen == [FILE]
