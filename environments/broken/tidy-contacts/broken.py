"""A contact list: count what is asked."""

from random import Random

from sandlot import Agent, Environment, Evidence, Task, World

NAMES = ("Anna Adams", "Brian Brown", "Carol Clark", "David Davis", "Emma Evans", "Frank Fox")
COUNTRIES = ("GB",)

env = Environment("contacts", system="Read the list. Reply with one whole number.")


@env.tasks
def tasks(rng: Random):
    for number in range(8):
        contacts = [contact(rng) for _ in range(40)]
        kind = rng.choice(("customer", "supplier"))
        count = sum(row["kind"] == kind for row in contacts)
        yield Task(f"list-{number}", prompt=f"How many contacts are a {kind}?", data={"contacts": contacts}, key={"count": count})


def contact(rng: Random) -> dict:
    name, kind = rng.choice(NAMES), "customer" if rng.random() < 0.7 else "supplier"
    row = {"name": name, "phone": f"020 7946 {rng.randrange(1000, 9999)}", "country": rng.choice(COUNTRIES), "kind": kind}
    return row | {"note": rng.choice(("Good client.", "Call back.", "New contact."))}


@env.tool
async def read_list(world: World) -> list[dict]:
    """Every contact."""
    return world.task.data["contacts"]


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
