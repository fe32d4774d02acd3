"""A house wiki: search it by word, read pages, edit them."""

from random import Random

from sandlot import Agent, Environment, Evidence, Task, ToolError, World

PAGES = {
    "canteen": "The canteen opens at {hour} and closes at {end}.",
    "printers": "Toner is in cabinet {cabinet}; the code is {code}.",
    "parking": "Visitors park on deck {deck}, bays {bay} and up.",
}
FACTS = {"hour": (6, 10), "end": (15, 19), "cabinet": (20, 90), "code": (1000, 9999), "deck": (2, 6), "bay": (100, 400)}

env = Environment("wiki", system="You keep the house wiki right. Use the tools; say `done` when finished.")


@env.tasks
def tasks(rng: Random):
    for number in range(9):
        facts = {name: rng.randrange(*bounds) for name, bounds in FACTS.items()}
        page = sorted(PAGES)[number % len(PAGES)]
        changed = {name: value + rng.randrange(1, 5) for name, value in facts.items() if f"{{{name}}}" in PAGES[page]}
        old = {name: text.format(**facts) for name, text in PAGES.items()}
        told = " and ".join(f"{facts[name]} becomes {value}" for name, value in changed.items())
        key = {"page": page, "text": PAGES[page].format(**changed)}
        prompt = f"On the page {page}, {told}. Leave the wording as it is."
        yield Task(f"edit-{number}", prompt=prompt, data={"pages": old}, key=key)


@env.setup
def open_wiki(world: World, task: Task) -> None:
    world.state = {"pages": dict(task.data["pages"]), "index": {}}


def index_of(pages: dict[str, str]) -> dict[str, list[str]]:
    index: dict[str, list[str]] = {}
    for page, text in pages.items():
        for word in set(text.replace(".", " ").replace(",", " ").replace(";", " ").lower().split()):
            index.setdefault(word, []).append(page)
    return index


@env.tool
async def search(world: World, word: str) -> list[str]:
    """Names of the pages that have this word."""
    if not world.state["index"]:
        world.state["index"] = index_of(world.state["pages"])
    return sorted(world.state["index"].get(word.lower(), []))


@env.tool
async def read_page(world: World, page: str) -> str:
    """The text of one page."""
    if page not in world.state["pages"]:
        raise ToolError(f"no page {page!r}; there are {', '.join(world.state['pages'])}")
    return world.state["pages"][page]


@env.tool
async def edit_page(world: World, page: str, text: str) -> str:
    """Replace the text of a page."""
    if page not in world.state["pages"]:
        raise ToolError(f"no page {page!r}; there are {', '.join(world.state['pages'])}")
    world.state["pages"][page] = text
    world.state["index"] = {}
    return f"Saved {page}."


@env.check(points=1)
def page_is_right(evidence: Evidence, task: Task) -> bool:
    return evidence.state["pages"][task.key["page"]].strip() == task.key["text"]


@env.solution
async def solve(agent: Agent, task: Task) -> None:
    await agent.call("edit_page", page=task.key["page"], text=task.key["text"])
    await agent.say("done")
