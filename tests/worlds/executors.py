"""Executors as a run opens them, on the environment `chores`."""

import sys
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from importlib.util import find_spec
from pathlib import Path

import anyio

from drive.ports import free_port
from sandlot.core.task import Task
from sandlot.env.environment import Environment
from sandlot.env.fingerprint import environment_fingerprint
from sandlot.env.load import load
from sandlot.env.taskset import tasks_of
from sandlot.run.config import RunConfig
from sandlot.run.executors.executor import Executor, ExecutorPlan, LocalExecutor
from sandlot.run.executors.messages import SetUp
from sandlot.run.executors.pool import WorkerPool
from sandlot.run.executors.processes import open_processes
from sandlot.run.executors.ray import open_ray
from sandlot.run.executors.worker import open_everything
from sandlot.run.executors.workers import open_workers
from sandlot.wiring.config import ModelConfig

CHORES = Path(__file__).parent / "chores.py"


def config_of(model: str = "scripted:golden", **changed) -> RunConfig:
    return RunConfig(env=str(CHORES), model=ModelConfig(spec=model), **changed)


def plan_of(
    tmp_path: Path, config: RunConfig | None = None, stop=lambda reason: None, env: Environment | None = None
) -> ExecutorPlan:
    env = env or load(CHORES)
    return ExecutorPlan(
        env=env, config=config or config_of(), fingerprint=environment_fingerprint(env), cache=tmp_path / "judge", stop=stop
    )


@asynccontextmanager
async def open_here(given: str, plan: ExecutorPlan) -> AsyncGenerator[LocalExecutor]:
    async with AsyncExitStack() as stack:
        setup = SetUp(config=plan.config, fingerprint=plan.fingerprint, cache=str(plan.cache), pool=0)
        yield LocalExecutor(await open_everything(stack, plan.env, setup))


@asynccontextmanager
async def open_joined(given: str, plan: ExecutorPlan) -> AsyncGenerator[WorkerPool]:
    """As many workers as `given` says, each started by its command line and again when it dies, as a supervisor would."""

    port, life = free_port(), anyio.CancelScope(shield=True)  # who cancels us must not kill workers that close their worlds

    async def keep() -> None:
        while True:
            process = await anyio.open_process(joining(port), stdin=None, stdout=2, stderr=None, start_new_session=True)
            try:
                await process.wait()
            finally:
                with anyio.CancelScope(shield=True):
                    if process.returncode is None:
                        process.kill()
                    await process.wait()

    async def keep_all() -> None:
        with life:
            async with anyio.create_task_group() as keepers:
                for _ in range(int(given)):
                    keepers.start_soon(keep)

    async with anyio.create_task_group() as group:
        try:
            async with open_workers(str(port), plan) as pool:
                group.start_soon(keep_all)
                while len(pool.pids) < int(given):  # noqa: ASYNC110 - other processes make it so
                    await anyio.sleep(0.02)
                yield pool
        finally:
            life.cancel()


def joining(port: int, *more: object) -> list[str]:
    """The command line of a worker on this machine."""
    return [sys.executable, "-m", "sandlot", "worker", "--join", f"127.0.0.1:{port}", *map(str, more)]


OPENERS = {"local": (open_here, ""), "processes": (open_processes, "2"), "workers": (open_joined, "2")}
ELSEWHERE = {"processes": "processes:{}"}
"""Executors with workers: how so many are named on the command line."""
if find_spec("ray") is not None:  # `make test-ray`
    OPENERS["ray"] = (open_ray, "2@local")
    ELSEWHERE["ray"] = "ray:{}@local"


@asynccontextmanager
async def opened(name: str, plan: ExecutorPlan, number: int = 2) -> AsyncGenerator[Executor | WorkerPool]:
    """An executor, with so many workers if it has any."""
    open_it, given = OPENERS[name]
    async with open_it(given.replace("2", str(number)), plan) as executor:
        yield executor


def chores(kind: str) -> list[Task]:
    return [task for task in tasks_of(load(CHORES)) if task.id.startswith(kind)]
