"""`make bench NAME=fleet`: many rollouts at once on this machine: the loop, real sandboxes, slow grading, long tails, shares.

- The loop: 4,096 multi-turn rollouts without a sandbox, all waiting for a slow endpoint at once (`waiting.py`), and as many as
  memory allows, at least 1,000, each with a real sandbox in which every turn runs a command.
- Grading: rollouts whose grading takes as long as their agent, with grading in its own queue and in the rollout's slot.
- Collection: heavy-tailed rollouts, one batch after the other (synchronous) and as places become free (asynchronous).
- Shares: three environments with a third of the places each, and with places that follow need (`shares.py`).

Lag is wall-clock and needs a quiet machine: the load average is above the table. CPU per turn is less sensitive to others.
"""

import argparse
import os
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from random import Random
from typing import Any

import anyio
import endpoint
import shares
from report import Report, Row, machine, publish, say
from waiting import HERE, figures_of, hold

from sandlot import Agent, Environment, Evidence, Limits, Task
from sandlot.run.collector import open_collector
from sandlot.run.config import RunConfig, RunPlan, Selection
from sandlot.run.prepare import prepare_run
from sandlot.run.results import Run
from sandlot.run.slots import RolloutStay
from sandlot.wiring.config import ModelConfig
from sandlot.wiring.models import open_policies

NAME = "fleet"
BOXED = HERE / "environments" / "boxed_dial.py"
AT_ONCE = (256, 4096)
SANDBOXES = (64, 4096)
"""Rollouts with a sandbox: few, for the base line, and at most."""
SANDBOX_BYTES = 4 * 2**20
"""Planned for a sandbox with its command, so that it is known how many memory allows; less is used."""
SMALLER = 32


def num_sandboxes(shrink: int) -> int:
    """As many as half of the available memory allows: others work on this machine too."""
    available = next(line for line in Path("/proc/meminfo").read_text().splitlines() if line.startswith("MemAvailable"))
    return min(SANDBOXES[1], int(available.split()[1]) * 1024 // 2 // SANDBOX_BYTES) // shrink


def slow_to_grade(tasks: int, act_s: float, grade_s: float) -> Environment:
    """Rollouts that wait for `act_s`, and a grader that waits for `grade_s`, such as a judge."""
    env = Environment("slow-grading", limits=Limits(time_s=600.0, grade_s=600.0))

    @env.tasks
    def each(_rng: Random) -> Iterator[Task]:
        for number in range(tasks):
            yield Task(f"t{number}", prompt="Wait.")

    @env.tool
    async def wait() -> str:
        """Wait."""
        await anyio.sleep(act_s)
        return "waited"

    @env.check(points=1)
    async def waited(evidence: Evidence, task: Task) -> bool:  # noqa: ARG001 - the shape of every check
        await anyio.sleep(grade_s)
        return evidence.answer == "done"

    @env.solution
    async def solve(agent: Agent, task: Task) -> None:  # noqa: ARG001 - the shape of every solution
        await agent.call("wait")
        await agent.say("done")

    return env


async def collected(env: Environment, at_once: int, batch: int | None = None, group: int = 1) -> dict[str, float]:
    """Take all rollouts; with `batch`, so many tasks at a time, each batch to its end. Returns seconds and the tail's share."""
    model = ModelConfig(spec="scripted:golden")
    config = RunConfig(env=env.name, model=model, select=Selection(group=group), at_once=at_once)
    prepared, ended = await prepare_run(env, config), list[float]()
    with tempfile.TemporaryDirectory() as folder:
        policies = open_policies(config.model, config.agent, env, None)
        async with open_collector(prepared, Path(folder) / "run", policies=policies) as collector:
            started, plan = time.monotonic(), prepared.plan
            for first in range(0, len(plan.tasks), batch or len(plan.tasks)):
                some = slice(first, first + (batch or len(plan.tasks)))
                await collector.collect(RunPlan(plan.tasks[some], plan.counts[some]))
            seconds = time.monotonic() - started
        run = Run(Path(folder) / "run")
        summary = run.summary()
        if summary.scored != plan.num_rollouts or summary.reward_latency is None:
            raise RuntimeError(f"{summary.scored} of {plan.num_rollouts} rollouts were scored: the figures would mean nothing")
        ended = sorted(row.started + row.seconds for row in run.rows)
    tail = ended[-1] - ended[int(len(ended) * 0.9) - 1]
    late = summary.reward_latency
    return {"seconds": seconds, "tail_s": tail, "latency_p50_s": late.p50, "latency_p99_s": late.p99}


@contextmanager
def grading_in_slots() -> Iterator[None]:
    """Every rollout keeps its slot until it is graded, as if there were no queue."""

    async def stay(_self: RolloutStay) -> None:
        return

    usual = RolloutStay.to_grading
    RolloutStay.to_grading = stay
    try:
        yield
    finally:
        RolloutStay.to_grading = usual


async def compared(scale: float) -> dict[str, dict[str, Any]]:
    """Grading, collection and shares; nothing but waiting, so that the machine hardly matters."""
    found: dict[str, dict[str, Any]] = {}
    grading = slow_to_grade(96, 1.0 * scale, 1.0 * scale)
    found["own queue"] = await collected(grading, 16)
    with grading_in_slots():
        found["in slots"] = await collected(grading, 16)
    tailed = shares.waiting("heavy-tailed", 48, 1.0 * scale, 1.2)
    found["asynchronous"] = await collected(tailed, 24, group=4)
    found["synchronous"] = await collected(tailed, 24, batch=6, group=4)
    envs = [shares.waiting(name, tasks, mean_s * scale, 0.5) for name, (tasks, mean_s) in shares.WORK.items()]
    for name, way in (("by need", shares.by_need), ("a third each", shares.fixed)):
        found[name] = {"seconds": await shares.seconds_of(lambda folder, way=way: way(envs, folder))}
    for name, figures in found.items():
        say(f"{name}: " + ", ".join(f"{key} {value:.2f}" for key, value in figures.items()))
    return found


def rows_of(loop: dict[str, Any], boxed: dict[str, Any], found: dict[str, dict[str, Any]]) -> list[Row]:
    """The table's lines."""

    def line(what: str, target: str, key: str) -> Row:
        return Row(what, loop[key], {"in sandboxes": boxed[key]}, target)

    def versus(what: str, ours: str, other: str, key: str) -> Row:
        return Row(what, found[ours][key], {other: found[other][key]})

    return [
        line("multi-turn rollouts at once", ">= 4096; 1,000 in sandboxes", "rollouts_at_once"),
        line("requests open at one moment, seen by the endpoint", "", "most_waiting"),
        line("loop lag p50, ms", "", "lag_p50_ms"),
        line("loop lag p99, ms", "< 50", "lag_p99_ms"),
        line("of it while this process was computing, ms", "< 50", "own_lag_p99_ms"),
        line("loop lag, longest, ms", "", "lag_max_ms"),
        line("CPU per turn, ms, each further one", "< 1", "marginal_cpu_ms_per_turn"),
        line("memory per waiting rollout, kB, of this process", "", "kb_per_waiting_rollout"),
        versus("96 rollouts, 1 s of agent and 1 s of grading each: seconds", "own queue", "in slots", "seconds"),
        versus("the same: reward latency p99, s", "own queue", "in slots", "latency_p99_s"),
        versus("192 heavy-tailed rollouts: seconds", "asynchronous", "synchronous", "seconds"),
        versus("the same: seconds for the last tenth", "asynchronous", "synchronous", "tail_s"),
        versus("three environments: seconds", "by need", "a third each", "seconds"),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--small", action="store_true", help=f"sizes / {SMALLER}, and the table is left alone: does it work?")
    parser.add_argument("--latency", type=float, default=6.0, help="mean seconds the slow endpoint takes for a turn")
    parser.add_argument("--sandboxes", type=int, help="rollouts in sandboxes at once; default: as many as memory allows")
    flags = parser.parse_args()
    endpoint.raise_open_files()
    where, shrink = machine(), SMALLER if flags.small else 1
    latency_s = flags.latency / (20 if flags.small else 1)
    found = anyio.run(compared, 0.1 if flags.small else 1.0)
    loop = figures_of(*(hold(max(8, count // shrink), latency_s) for count in AT_ONCE))
    many = flags.sandboxes or num_sandboxes(shrink)
    few_boxed, many_boxed = (hold(count, latency_s, BOXED) for count in (max(2, SANDBOXES[0] // shrink), many))
    boxed = figures_of(few_boxed, many_boxed)
    ours = {"loop": loop, "sandboxes": boxed | {"base": asdict(few_boxed)}, "compared": found, "load": os.getloadavg()}
    ratios = {
        "grading": found["in slots"]["seconds"] / found["own queue"]["seconds"],
        "collection": found["synchronous"]["seconds"] / found["asynchronous"]["seconds"],
        "shares": found["a third each"]["seconds"] / found["by need"]["seconds"],
    }
    publish(Report(NAME, ours, {}, ratios, rows_of(loop, boxed, found), where), write_table=not flags.small)


if __name__ == "__main__":
    main()
