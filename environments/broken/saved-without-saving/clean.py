"""A notebook of limited size: keep what is asked for."""

from random import Random

from sandlot import Agent, Environment, Evidence, Task, ToolError, World

ROOM = 120
WORDS = ["amber", "birch", "cedar", "delta", "ember", "fjord", "glade", "heron", "inlet", "jetty", "knoll", "larch"]

env = Environment("notebook", system=f"The notebook holds {ROOM} characters in all. Say `done` when finished.")


@env.tasks
def tasks(rng: Random):
    for number in range(8):
        code = "-".join(rng.sample(WORDS, 4))
        old = {f"old {place}": "x" * rng.randrange(30, 40) for place in range(3)}
        title = f"door {rng.randrange(10, 99)}"
        prompt = f"Keep a note `{title}` with the text `{code}`. Notes called `old ...` may go."
        yield Task(f"note-{number}", prompt=prompt, data={"notes": old}, key={"title": title, "code": code})


@env.setup
def open_notebook(world: World, task: Task) -> None:
    world.state = {"notes": dict(task.data["notes"])}


@env.tool
async def list_notes(world: World) -> list[str]:
    """The titles of all notes."""
    return sorted(world.state["notes"])


@env.tool
async def keep_note(world: World, title: str, text: str) -> str:
    """Keep a note."""
    try:
        store(world.state["notes"], title, text)
    except OverflowError as error:
        raise ToolError(str(error)) from error
    return "Saved."


@env.tool
async def drop_note(world: World, title: str) -> str:
    """Throw a note away."""
    if world.state["notes"].pop(title, None) is None:
        raise ToolError(f"no note {title!r}")
    return "Gone."


def store(notes: dict[str, str], title: str, text: str) -> None:
    used = sum(len(name) + len(body) for name, body in notes.items() if name != title)
    if used + len(title) + len(text) > ROOM:
        raise OverflowError(f"the notebook is full: {ROOM - used} characters are left")
    notes[title] = text


@env.check(points=1)
def note_is_kept(evidence: Evidence, task: Task) -> bool:
    return evidence.state["notes"].get(task.key["title"], "").strip() == task.key["code"]


@env.solution
async def solve(agent: Agent, task: Task) -> None:
    await agent.call("drop_note", title="old 0")
    await agent.call("keep_note", title=task.key["title"], text=task.key["code"])
    await agent.say("done")
