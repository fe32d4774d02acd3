"""A small environment for end-to-end tests: files, state, async and sync tools, a golden solution, a short time limit."""

from random import Random

from sandlot import Agent, Environment, Evidence, Limits, Task, ToolError, World

env = Environment("notes", system="You keep notes.", limits=Limits(turns=8, time_s=3.0))


@env.tasks
def tasks(rng: Random):
    for number in range(8):
        word = rng.choice(["river", "candle", "market", "velvet"])
        yield Task(f"note-{number}", prompt=f"Write `{word}` into /out/note.txt.", data={"word": word}, key={"word": word})


@env.setup
async def put(world: World, task: Task) -> None:
    await world.write("/in/task.txt", task.data["word"] * 40)
    world.state["writes"] = 0


@env.tool
async def write_note(world: World, text: str) -> str:
    """Write the note."""
    await world.write("/out/note.txt", text)
    world.state["writes"] += 1
    return f"{len(text)} characters"


@env.tool
def look(world: World, path: str) -> str:
    """Look at what is known about a path."""
    if not path.startswith("/"):
        raise ToolError(f"`{path}` is not absolute")
    return f"{world.state['writes']} writes so far"


@env.check(points=3)
def note_is_right(evidence: Evidence, task: Task) -> tuple[bool, str]:
    text = evidence.read_text("/out/note.txt")
    return text == task.key["word"], f"the note says {text[:40]!r}"


@env.check(points=1, requires=("note_is_right",))
def written_once(evidence: Evidence, task: Task) -> bool:
    return evidence.state["writes"] == 1


@env.solution
async def solve(agent: Agent, task: Task) -> None:
    await agent.call("look", path="/in")
    await agent.call("write_note", text=task.key["word"])
    await agent.say("done")
