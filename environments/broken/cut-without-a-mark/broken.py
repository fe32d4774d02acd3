"""Minutes of a meeting: what was decided at the end?"""

from random import Random

from sandlot import Agent, Environment, Evidence, Task, World

TOPICS = ("roof", "garden", "lift", "heating", "parking", "bicycles", "mailboxes", "lights", "fence", "stairs")
PAGE = 600

env = Environment("minutes", system="Read the minutes. Reply with the number of euros alone.")


@env.tasks
def tasks(rng: Random):
    for number in range(8):
        rows = [
            f"On the {topic} the owners spoke for {rng.randrange(5, 50)} minutes and put it off once more." for topic in TOPICS
        ]
        budget = rng.randrange(1000, 90000)
        rows.append(f"At last they gave {budget} euros to the {TOPICS[number]} and went home.")
        yield Task(
            f"minutes-{number}", prompt="What was spent in the end?", data={"minutes": "\n".join(rows)}, key={"budget": budget}
        )


@env.tool
async def read_minutes(world: World) -> str:
    """The minutes of the meeting."""
    return world.task.data["minutes"][:PAGE]


def number(text: str) -> float | None:
    try:
        return float(text.strip().rstrip(".").replace(",", ""))
    except ValueError:
        return None


@env.check(points=1)
def budget_is_right(evidence: Evidence, task: Task) -> bool:
    return number(evidence.answer) == task.key["budget"]


@env.solution
async def solve(agent: Agent, task: Task) -> None:
    await agent.say(str(task.key["budget"]))
