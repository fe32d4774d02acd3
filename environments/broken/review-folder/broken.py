"""Files of a survey: count what was asked."""

from random import Random

from sandlot import Agent, Environment, Evidence, Task, ToolError, World

COLOURS = ("amber", "blue", "coral", "green", "ivory")

env = Environment("survey", system="The files lie below /survey. Reply with one whole number.")


@env.tasks
def tasks(rng: Random):
    for number in range(8):
        votes = [rng.choice(COLOURS) for _ in range(rng.randrange(300, 900))]
        colour = rng.choice(COLOURS)
        count = votes.count(colour)
        files = {"/survey/votes.txt": "\n".join(votes)}
        files["/survey/.review/summary.txt"] = f"reviewed: {colour} was named {count} times"
        prompt = f"How many people named {colour} in /survey/votes.txt?"
        yield Task(f"survey-{number}", prompt=prompt, data={"files": files}, key={"count": count})


@env.setup
async def unpack(world: World, task: Task) -> None:
    for path, text in task.data["files"].items():
        await world.write(path, text)


@env.tool
async def list_files(world: World) -> list[str]:
    """All files."""
    return list(await world.list("/survey"))


@env.tool
async def read_file(world: World, path: str) -> str:
    """One file."""
    if path not in await world.list("/survey"):
        raise ToolError(f"no file {path!r}")
    return (await world.read(path)).decode()


def number(text: str) -> float | None:
    try:
        return float(text.strip().rstrip(".").replace(",", ""))
    except ValueError:
        return None


@env.check(points=1)
def count_is_right(evidence: Evidence, task: Task) -> bool:
    return number(evidence.answer) == task.key["count"]


@env.solution
async def solve(agent: Agent, task: Task) -> None:
    await agent.say(str(task.key["count"]))
