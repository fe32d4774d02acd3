"""Letters to customers about late parcels."""

from random import Random
from typing import Literal

from sandlot import Agent, Environment, JudgeCheck, Rubric, Task, ToolError, World

MONTHS = ("March", "April", "May", "June")
CAUSES = ("strike", "storm", "customs", "breakdown")

env = Environment(
    "late-parcels", system="Fill in the letter: what held the parcel up, and when it comes. Say `done` when finished."
)


@env.tasks
def tasks(rng: Random):
    for number in range(8):
        cause, day, month = rng.choice(CAUSES), rng.randrange(2, 28), rng.choice(MONTHS)
        prompt = (
            f"Parcel {rng.randrange(10**6, 10**7)} was promised for {day} {month}. It is held up by {cause} and two days late."
        )
        key = {"cause": cause, "day": f"{day + 2} {month}"}
        yield Task(f"parcel-{number}", prompt=prompt, key=key, rubric=f"{cause}, {key['day']}")


@env.setup
def blank(world: World, task: Task) -> None:
    world.state = {"cause": "", "day": ""}


@env.tool
async def fill_in(world: World, cause: Literal["strike", "storm", "customs", "breakdown"], day: int, month: str) -> str:
    """Fill in the letter's two fields."""
    if month not in MONTHS or not 0 < day < 32:
        raise ToolError(f"no such day; the months are {', '.join(MONTHS)}")
    world.state = {"cause": cause, "day": f"{day} {month}"}
    return f"Held up by {cause}; comes on {day} {month}."


def question(cause: str, day: str) -> Rubric:
    asked = f'The letter gives "{cause}" as the cause and "{day}" as the day.'
    return Rubric(checks=(JudgeCheck(id="says_what_is_needed", prompt=asked, points=2, view=("state",)),))


env.marked.rubrics = {
    f"{cause}, {day} {month}": question(cause, f"{day} {month}") for cause in CAUSES for day in range(4, 30) for month in MONTHS
}


@env.solution
async def solve(agent: Agent, task: Task) -> None:
    day, month = task.key["day"].split()
    await agent.call("fill_in", cause=task.key["cause"], day=int(day), month=month)
    await agent.say("done")
