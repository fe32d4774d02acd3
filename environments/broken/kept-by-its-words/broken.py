"""A parts depot: how much of a part is there?"""

from random import Random

from sandlot import Agent, Environment, Evidence, Task, ToolError, World

PARTS = ("axle", "belt", "clamp", "dowel", "elbow")
COUNTED: dict[str, int] = {}

env = Environment("depot", system="Ask `stock_of` for the part. Reply with the number alone.")


@env.tasks
def tasks(rng: Random):
    for number in range(10):
        stock = {part: rng.randrange(10, 900) for part in PARTS}
        part = PARTS[number % 5]
        prompt = f"Depot {number + 1}: how many of part `{part}` are there?"
        yield Task(f"depot-{number}", prompt=prompt, data={"stock": stock}, key={"part": part, "count": stock[part]})


@env.tool
async def stock_of(world: World, part: str) -> int:
    """Count a part; counting again is quick."""
    if part not in PARTS:
        raise ToolError(f"no part {part[:40]!r}; there are {', '.join(PARTS)}")
    if part not in COUNTED:
        COUNTED[part] = world.task.data["stock"][part]
    return COUNTED[part]


@env.check(points=1)
def count_is_right(evidence: Evidence, task: Task) -> bool:
    try:
        return float(evidence.answer.strip().rstrip(".").replace(",", "")) == task.key["count"]
    except ValueError:
        return False


@env.solution
async def solve(agent: Agent, task: Task) -> None:
    await agent.call("stock_of", part=task.key["part"])
    await agent.say(str(task.key["count"]))
