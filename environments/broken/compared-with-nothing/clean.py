"""Book a meeting room as asked."""

from random import Random

from sandlot import Agent, Environment, Evidence, Task, World

ROOMS = ("Alder", "Beech", "Cedar", "Rowan")

env = Environment("rooms", system="Book the room with seats for all, and put the title on it. Say `done` when finished.")


@env.tasks
def tasks(rng: Random):
    for number in range(8):
        seats = dict(zip(rng.sample(ROOMS, 4), (4, 8, 12, 20), strict=True))
        people, title = rng.randrange(2, 20), f"Review {rng.randrange(100, 999)}"
        room = min((name for name, count in seats.items() if count >= people), key=seats.__getitem__)
        prompt = f"{people} people need the smallest room that holds them, for `{title}`. Seats: {seats}."
        yield Task(f"meeting-{number}", prompt=prompt, key={"room": room, "title": title})


@env.setup
def clear(world: World, task: Task) -> None:
    world.state = {"booking": {}}


@env.tool
async def book(world: World, room: str, title: str) -> str:
    """Book a room under a title."""
    world.state["booking"] = {"room": room, "title": title}
    return f"{room} is booked for {title}."


@env.check(points=3)
def room_is_right(evidence: Evidence, task: Task) -> bool:
    return evidence.state["booking"].get("room") == task.key["room"]


@env.check(points=2)
def title_is_on_it(evidence: Evidence, task: Task) -> bool:
    return evidence.state["booking"].get("title") == task.key["title"]


@env.solution
async def solve(agent: Agent, task: Task) -> None:
    await agent.call("book", room=task.key["room"], title=task.key["title"])
    await agent.say("done")
