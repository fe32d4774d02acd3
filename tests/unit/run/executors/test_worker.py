"""A worker by itself: what it says about the rollouts that it takes. Here it is in the process of the test."""

from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import msgspec
import pytest

from sandlot.core.errors import HarnessError
from sandlot.core.trace import Failed
from sandlot.env.load import load
from sandlot.env.taskset import tasks_of
from sandlot.run.executors.messages import (
    EvidenceStored,
    GradeRollout,
    RolloutDone,
    RolloutRaised,
    RolloutReturned,
    TakeRollout,
    WorkerLeaving,
    WorkerReady,
)
from sandlot.run.executors.setup import setup_of, task_digest
from sandlot.run.executors.worker import Departure, serve_run
from worlds.executors import CHORES, config_of, plan_of

pytestmark = pytest.mark.timeout(300)


@asynccontextmanager
async def serving(tmp_path, file: Path = CHORES, departure: Departure | None = None, send=lambda message: None):
    """Gives orders to a worker that is ready; what it said, in a list that grows."""
    said, env = [], load(file)
    tell, orders = anyio.create_memory_object_stream(100)

    def note(message) -> None:
        send(message)
        said.append(message)
        if isinstance(message, EvidenceStored):
            tell.send_nowait(GradeRollout(number=message.number))

    async def each_order():
        async for order in orders:
            yield order

    def take(name: str) -> None:
        (task,) = (task for task in tasks_of(env) if task.id == name)
        tell.send_nowait(TakeRollout(number=1, task=name, digest=task_digest(task), rollout=0, run="r"))

    setup = setup_of(plan_of(tmp_path, msgspec.structs.replace(config_of(), env=str(file)), env=env))
    with tell, orders, anyio.fail_after(30):
        async with anyio.create_task_group() as group:
            group.start_soon(serve_run, setup, each_order(), note, departure)
            while not said:  # noqa: ASYNC110 - it says so to a list
                await anyio.sleep(0.01)
            assert isinstance(said[0], WorkerReady)
            yield take, said
            tell.close()


async def until_said(said: list, kind: type) -> None:
    while not any(isinstance(each, kind) for each in said):  # noqa: ASYNC110 - it says so to a list
        await anyio.sleep(0.01)


@pytest.mark.parametrize("error", [HarnessError("a message of 3 bytes; at most 2"), OverflowError("int too big"), TypeError("x")])
async def test_a_result_that_cannot_be_sent_is_a_failure_of_its_rollout(tmp_path, error):
    def send(message) -> None:
        if isinstance(message, RolloutDone) and message.trace.nodes:
            raise error

    async with serving(tmp_path, send=send) as (take, said):
        take("short-0")
        await until_said(said, RolloutDone)
    trace = said[-1].trace
    assert isinstance(trace.outcome, Failed)
    assert (trace.key, trace.end, trace.outcome.side, trace.outcome.kind) == (("short-0", 0), "cut", "harness", "unsent")
    assert str(error) in trace.outcome.message


BREAKING = """
            try:
                while not (marks / "fail").exists():
                    await anyio.sleep(0.01)
            finally:
                raise SandboxError("the machine stops its containers")
"""


@pytest.mark.parametrize("when", ["before the grace has ended", "because it is cancelled"])
async def test_what_fails_because_the_worker_leaves_is_returned(tmp_path, monkeypatch, when):
    """A machine that stops takes its containers too: that says nothing about the rollout."""
    monkeypatch.setenv("MARKS", str(tmp_path))
    file = tmp_path / "chores.py"
    code = CHORES.read_text().replace("import anyio\n", "import anyio\nfrom sandlot.core.errors import SandboxError\n", 1)
    code = code.replace(
        """
            try:
                await anyio.sleep_forever()
            finally:
                (marks / f"closed-{os.getpid()}-{time.monotonic_ns()}").touch()
""",
        BREAKING,
    )
    file.write_text(code)
    departure = Departure(20.0 if when.startswith("before") else 0.0)
    async with serving(tmp_path, file, departure) as (take, said):
        take("endless-0")
        while not list(tmp_path.glob("began-*")):  # noqa: ASYNC110 - a tool makes it
            await anyio.sleep(0.01)
        departure.asked.set()
        await until_said(said, WorkerLeaving)
        if departure.grace_s:
            (tmp_path / "fail").touch()
        await until_said(said, RolloutReturned)
    assert not any(isinstance(each, RolloutDone | RolloutRaised) for each in said)
