"""A library desk: find the shelf mark of a book."""

from random import Random

from sandlot import Agent, Environment, Evidence, Task, World

TITLES = (
    "Harbour Lights",
    "The Salt Road",
    "Winter Atlas",
    "A Field of Stones",
    "Copper Moon",
    "Nine Rivers",
    "The Glass Orchard",
)

env = Environment("library", system="Find the book with `search`. Reply with its shelf mark alone.")


@env.tasks
def tasks(rng: Random):
    for number in range(8):
        shelf = {title: f"{rng.choice('ABCDEFGH')}{rng.randrange(10, 99)}.{rng.randrange(100, 999)}" for title in TITLES}
        title = TITLES[number % len(TITLES)]
        yield Task(f"book-{number}", prompt=f"Where is `{title}`?", data={"shelf": shelf}, key={"mark": shelf[title]})


@env.setup
def fill(world: World, task: Task) -> None:
    world.state = {"shelf": task.data["shelf"], "asked": []}


def remembered(words: str, history: list[str]) -> list[str]:
    history.append(words)
    return history[-3:]


@env.tool
async def search(world: World, words: str) -> str:
    """Find books by words of the title. Shows the last searches as well."""
    recent = remembered(words, world.state["asked"])
    hits = [f"{title}: {mark}" for title, mark in world.state["shelf"].items() if words.lower() in title.lower()]
    return "\n".join([*hits, f"Recent searches: {', '.join(recent)}"])


@env.check(points=1)
def mark_is_right(evidence: Evidence, task: Task) -> bool:
    return evidence.answer.strip().rstrip(".").casefold() == task.key["mark"].casefold()


@env.solution
async def solve(agent: Agent, task: Task) -> None:
    await agent.say(task.key["mark"])
