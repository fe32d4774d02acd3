"""A door log: when did somebody come in?"""

from datetime import UTC, datetime
from random import Random

from sandlot import Agent, Environment, Evidence, Task, World

NAMES = ("Adler", "Boom", "Cruz", "Diop", "Eng", "Falk", "Gall", "Hahn")

env = Environment("door-log", system="Reply with a time alone, as HH:MM.")


@env.tasks
def tasks(rng: Random):
    for number, name in enumerate(NAMES):
        seconds = {each: 1_760_000_000 + rng.randrange(0, 86_400) for each in NAMES}
        prompt = f"When did {name} come in? Use the log."
        yield Task(f"door-{number}", prompt=prompt, data={"seconds": seconds}, key={"name": name, "second": seconds[name]})


def clock(second: int) -> str:
    return datetime.fromtimestamp(second).strftime("%H:%M")


@env.tool
async def read_log(world: World) -> str:
    """Everybody who came in."""
    return "\n".join(f"{clock(second)} {name}" for name, second in world.task.data["seconds"].items())


@env.check(points=1)
def time_is_right(evidence: Evidence, task: Task) -> bool:
    return evidence.answer.strip().rstrip(".") == clock(task.key["second"])


@env.solution
async def solve(agent: Agent, task: Task) -> None:
    await agent.say(clock(task.key["second"]))
