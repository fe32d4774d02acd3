"""A service queue: give incoming jobs their priority."""

from random import Random
from typing import Literal

from sandlot import Agent, Environment, Evidence, Task, ToolError, World

HOURS = {"low": 72, "normal": 24, "high": 8}
RULES = "No power is high; noise is normal; paint is low."

env = Environment("service-queue", system=f"Give every job its priority. {RULES} Say `done` when finished.")


@env.tasks
def tasks(rng: Random):
    wanted = {"no power": "high", "noise": "normal", "paint": "low"}
    for number in range(8):
        jobs = {f"J{rng.randrange(100, 1000)}": rng.choice(sorted(wanted)) for _ in range(4)}
        prompt = "Jobs: " + ", ".join(f"{job} ({about})" for job, about in jobs.items())
        yield Task(
            f"queue-{number}", prompt=prompt, data={"jobs": list(jobs)}, key={job: wanted[about] for job, about in jobs.items()}
        )


@env.setup
def fill(world: World, task: Task) -> None:
    world.state = {"due": dict.fromkeys(task.data["jobs"], 0)}


@env.tool
async def prioritise(world: World, job: str, priority: Literal["low", "normal", "high", "urgent"]) -> str:
    """Set the priority of a job."""
    hours = HOURS[priority]
    if job not in world.state["due"]:
        raise ToolError(f"no job {job!r}")
    world.state["due"][job] = hours
    return f"{job} is due in {hours} hours."


@env.check(points=4)
def jobs_are_due(evidence: Evidence, task: Task) -> float:
    return sum(evidence.state["due"][job] == HOURS[priority] for job, priority in task.key.items()) / len(task.key)


@env.solution
async def solve(agent: Agent, task: Task) -> None:
    for job, priority in task.key.items():
        await agent.call("prioritise", job=job, priority=priority)
    await agent.say("done")
