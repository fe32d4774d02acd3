"""Do scores spread? A ladder of scripted skills plays an environment, and each rung's scores are counted.

    make bench NAME=ladder ARGS=terminal
    make bench NAME=ladder ARGS=proofs

In `terminal` a rung makes each call of the golden solution with some probability and leaves the others out, as an agent that
forgets steps. In `proofs` a rung knows some levels of difficulty; of the others it proves only the lemmas that the task states,
where there are any, and says so. The graders are the real ones. It prints a table and keeps nothing.
"""

import argparse
import tempfile
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from random import Random
from typing import Any

from sandlot import Agent, Environment, Scored, Task, load, run, tasks_of

ENVIRONMENTS = Path(__file__).parents[1] / "environments"
Solution = Callable[[Agent, Task], Awaitable[None]]


class Forgetful:
    """The agent, without some of the golden solution's calls."""

    def __init__(self, agent: Agent, rng: Random, skill: float) -> None:
        self._agent, self._rng, self._skill = agent, rng, skill

    async def call(self, tool: str, **arguments: Any) -> str:
        return await self._agent.call(tool, **arguments) if self._rng.random() < self._skill else ""

    async def say(self, text: str) -> None:
        await self._agent.say(text)


def forgetting(golden: Solution, skill: float) -> Solution:
    async def solve(agent: Any, task: Task) -> None:
        await golden(Forgetful(agent, Random(f"{task.id} {skill}"), skill), task)  # type: ignore[arg-type]

    return solve


def knowing(golden: Solution, levels: Sequence[str], *, lemmas: bool) -> Solution:
    async def solve(agent: Any, task: Task) -> None:
        if task.tags[1] in levels:
            await golden(agent, task)
            return
        if lemmas and task.data.get("steps"):
            await agent.call("check_proof", text=task.key["proof"].partition("Theorem main_goal")[0])
        await agent.say("not proved")

    return solve


def rungs(name: str, golden: Solution) -> dict[str, Solution]:
    if name == "terminal":
        return {f"makes {skill:.0%} of the calls": forgetting(golden, skill) for skill in (0.0, 0.25, 0.5, 0.75, 1.0)}
    return {
        "nothing": knowing(golden, (), lemmas=False),
        "easy": knowing(golden, ("easy",), lemmas=False),
        "easy, and lemmas": knowing(golden, ("easy",), lemmas=True),
        "easy and medium, and lemmas": knowing(golden, ("easy", "medium"), lemmas=True),
        "all": golden,
    }


def scores_of(env: Environment, solution: Solution, tasks: Sequence[str]) -> list[float]:
    env.marked.solution = solution
    with tempfile.TemporaryDirectory() as runs:
        outcomes = [trace.outcome for trace in run(env, "scripted:golden", tasks=tuple(tasks), runs=Path(runs), at_once=8)]
    failed = [outcome for outcome in outcomes if not isinstance(outcome, Scored)]
    if failed or len(outcomes) < len(tasks):
        raise SystemExit(f"{len(tasks) - len(outcomes) + len(failed)} of {len(tasks)} tasks have no score: {failed[:1]}")
    return [outcome.score.value for outcome in outcomes if isinstance(outcome, Scored)]


def main() -> None:
    parser = argparse.ArgumentParser(description="Play a ladder of scripted skills.")
    parser.add_argument("environment", choices=("terminal", "proofs"))
    parser.add_argument("--every", type=int, default=1, help="play every n-th task")
    args = parser.parse_args()
    env = load(ENVIRONMENTS / args.environment)
    tasks = [task.id for task in tasks_of(env)][:: args.every]
    golden = env.marked.solution
    if golden is None:
        raise SystemExit(f"{args.environment} has no golden solution")
    print(f"| skill | tasks | mean score | none | part | full marks |\n|{'---|' * 6}")
    for name, solution in rungs(args.environment, golden).items():
        scores = scores_of(env, solution, tasks)
        none, full = sum(score <= 0 for score in scores), sum(score >= 1 for score in scores)
        mean = sum(scores) / len(scores)
        print(f"| {name} | {len(scores)} | {mean:.3f} | {none} | {len(scores) - none - full} | {full} |", flush=True)


if __name__ == "__main__":
    main()
