"""Three environments at once with a fixed division of the places in flight, and with places that follow need.

    make bench NAME=shares

Rollouts do nothing but wait for as long as their task says: short ones, middling ones and long ones, with the same 24 places.
The bound is all waiting divided by the places. The last rows are one environment whose tasks differ in length: started in the
order of its tasks, and in the order that lengths seen so far suggest. Wall-clock is the point, and the loop is mostly idle.
"""

import sys
import tempfile
import time
from functools import partial
from pathlib import Path
from random import Random

import anyio
from report import Report, Row, publish, say

from sandlot import Agent, Environment, Evidence, Limits, Task, World
from sandlot.run import launch
from sandlot.run.config import RunConfig, Selection
from sandlot.run.run import run_config, run_together
from sandlot.run.schedule.policies import Adaptive, Fifo
from sandlot.wiring.config import ModelConfig

NAME = "shares"
PLACES = 24
WORK = {"short": (60, 0.1), "middling": (30, 0.5), "long": (20, 2.5)}
"""Tasks, and mean seconds of a rollout."""
GROUP = 4


def waiting(name: str, tasks: int, mean_s: float, spread: float) -> Environment:
    """An environment whose rollouts wait, as long for each of a task; the lengths of tasks are log-normal."""
    env = Environment(name, limits=Limits(time_s=600.0))
    drawn = Random(name)
    lengths = [mean_s * drawn.lognormvariate(-(spread**2) / 2, spread) for _ in range(tasks)]

    @env.tasks
    def each(_rng: Random):
        for number, seconds in enumerate(lengths):
            yield Task(f"t{number}", prompt="Wait.", key={"seconds": seconds})

    @env.tool
    async def wait(world: World, seconds: float) -> str:  # noqa: ARG001 - the shape of every tool
        """Wait."""
        await anyio.sleep(seconds)
        return "waited"

    @env.check(points=1)
    def waited(evidence: Evidence, task: Task) -> bool:  # noqa: ARG001 - the shape of every check
        return evidence.answer == "done"

    @env.solution
    async def solve(agent: Agent, task: Task) -> None:
        await agent.call("wait", seconds=task.key["seconds"])
        await agent.say("done")

    return env


def config(env: Environment, at_once: int) -> RunConfig:
    model = ModelConfig(spec="scripted:golden")
    return RunConfig(env=env.name, model=model, select=Selection(group=GROUP), at_once=at_once)


async def seconds_of(what) -> float:
    started = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        for run in await what(Path(folder)):
            if run.verdict != "complete" or run.summary().scored != run.summary().rollouts:
                raise RuntimeError(f"{run.path}: {run.verdict}; its figures would mean nothing")
    return time.monotonic() - started


async def fixed(envs: list[Environment], folder: Path):
    """A third of the places for each."""
    found = []

    async def one(env: Environment) -> None:
        found.append(await run_config(config(env, PLACES // len(envs)), env=env, runs=folder))

    async with anyio.create_task_group() as group:
        for env in envs:
            group.start_soon(one, env)
    return found


async def by_need(envs: list[Environment], folder: Path):
    return await run_together([config(env, PLACES) for env in envs], envs=envs, runs=folder)


async def one_by_one(envs: list[Environment], folder: Path):
    return [await run_config(config(env, PLACES), env=env, runs=folder) for env in envs]


def bound(envs: list[Environment]) -> float:
    whole = sum(task.key["seconds"] * GROUP for env in envs for task in env.marked.tasks(Random(0)))
    longest = max(task.key["seconds"] for env in envs for task in env.marked.tasks(Random(0)))
    return max(longest, whole / PLACES)


async def measured(*, small: bool) -> Report:
    scale = 0.2 if small else 1.0
    envs = [waiting(name, tasks, mean_s * scale, 0.5) for name, (tasks, mean_s) in WORK.items()]
    least = bound(envs)
    await seconds_of(lambda folder: one_by_one([waiting("first", 2, 0.01, 0.1)], folder))  # what is imported at first use
    took = {}
    for name, way in (("by need", by_need), ("a third each", fixed), ("one by one", one_by_one)):
        took[name] = await seconds_of(lambda folder, way=way: way(envs, folder))
        say(f"{name}: {took[name]:.2f} s, bound {least:.2f}")
    rows = [
        Row("three environments: seconds, less is better", took["by need"], {k: v for k, v in took.items() if k != "by need"}),
        Row("the same, of the bound", took["by need"] / least, {k: v / least for k, v in took.items() if k != "by need"}),
    ]
    uneven = waiting("uneven", 48, 1.0 * scale, 1.2)
    order = {}
    for name, policy in (("expected longest first", Adaptive(chunk=None)), ("in order of tasks", Fifo())):
        launch.DEFAULT_POLICY = policy
        order[name] = await seconds_of(lambda folder: one_by_one([uneven], folder))
        say(f"{name}: {order[name]:.2f} s, bound {bound([uneven]):.2f}")
    first, second = order.items()
    rows.append(Row("one environment of uneven tasks: seconds", first[1], {second[0]: second[1]}))
    rows.append(Row("the same, of the bound", first[1] / bound([uneven]), {second[0]: second[1] / bound([uneven])}))
    ratios = {name: value / took["by need"] for name, value in took.items()}
    return Report(NAME, {"seconds": took, "order": order, "bound": least}, {}, ratios, rows)


if __name__ == "__main__":
    small = "--small" in sys.argv
    publish(anyio.run(partial(measured, small=small)), write_table=not small)
