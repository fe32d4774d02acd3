"""A shift book: read what the last shift wrote, add your own entry."""

import json
from random import Random
from pathlib import Path
from tempfile import gettempdir

from sandlot import Agent, Environment, Evidence, Task, World

MACHINES = ("press", "lathe", "kiln", "loom", "mill", "saw")
PLACE = Path(gettempdir()) / "shift-book"

env = Environment("shift-book", system="Write one entry into the shift book, then say `done`.")


@env.tasks
def tasks(rng: Random):
    for number in range(6):
        machine, hours = MACHINES[number], rng.randrange(100, 999)
        old = [f"{other}: {rng.randrange(100, 999)} hours" for other in MACHINES if other != machine]
        prompt = f"The {machine} has run {hours} hours. Enter it in the words the others are entered in."
        yield Task(f"shift-{number}", prompt=prompt, data={"old": old}, key={"entry": f"{machine}: {hours} hours"})


@env.setup
def open_book(world: World, task: Task) -> None:
    PLACE.mkdir(exist_ok=True)
    page = PLACE / f"{task.id}.json"
    entries = json.loads(page.read_text()) if page.exists() else list(task.data["old"])
    world.state = {"entries": entries}


@env.tool
async def read_book(world: World) -> str:
    """All entries, oldest first."""
    return "\n".join(world.state["entries"])


@env.tool
async def write_entry(world: World, text: str) -> str:
    """Add an entry."""
    world.state["entries"].append(text)
    (PLACE / f"{world.task.id}.json").write_text(json.dumps(world.state["entries"]))
    return "Entered."


@env.check(points=1)
def entry_is_there(evidence: Evidence, task: Task) -> bool:
    own = evidence.state["entries"][len(task.data["old"]) :]
    return bool(own) and own[-1].strip().rstrip(".").casefold() == task.key["entry"]


@env.solution
async def solve(agent: Agent, task: Task) -> None:
    await agent.call("write_entry", text=task.key["entry"])
    await agent.say("done")
