"""A cold store: find the warmest reading."""

from random import Random

from sandlot import Agent, Environment, Evidence, Task, World

STATUS = ("ok",)

env = Environment("cold-store", system="Read the log. Reply with the warmest temperature alone, in hundredths of a degree.")


@env.tasks
def tasks(rng: Random):
    for number in range(8):
        start = rng.randrange(-2100, -1700)
        readings = [reading(rng, start) for _ in range(40)]
        warmest = max(row["value"] for row in readings if row["value"] is not None)
        yield Task(
            f"store-{number}", prompt="What was the warmest reading?", data={"readings": readings}, key={"warmest": warmest}
        )


def reading(rng: Random, start: int) -> dict:
    return {"after_s": 10, "value": start + rng.randrange(-20, 21), "status": rng.choice(STATUS)}


@env.tool
async def read_log(world: World) -> list[dict]:
    """All readings, in hundredths of a degree."""
    return world.task.data["readings"]


def number(text: str) -> float | None:
    try:
        return float(text.strip().rstrip(".").replace(",", ""))
    except ValueError:
        return None


@env.check(points=1)
def warmest_is_right(evidence: Evidence, task: Task) -> bool:
    return number(evidence.answer) == task.key["warmest"]


@env.solution
async def solve(agent: Agent, task: Task) -> None:
    await agent.say(str(task.key["warmest"]))
