"""A contact list: count what is asked."""

from random import Random

from sandlot import Agent, Environment, Evidence, Task, World

NAMES = ("Ana Núñez", "Björn Åkerlund", "李 娜", "O'Neill, Pat", "Śliwa Zofia", "محمد علي", "Anna Adams", "dr. h. c. K. Übel")
COUNTRIES = ("DE",) * 9 + ("GB",) * 5 + ("PL",) * 3 + ("CN",) * 2 + ("EG",)
WORDS = (
    "rückruf",
    "offen",
    "see mail",
    "!!",
    "bitte nicht anrufen",
    "vor 9h",
    "żadnych",
    "(alt)",
    "contract",
    "n/a",
    "2nd reminder",
)

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
    phone = None if rng.random() < 0.34 else f"+{rng.choice((44, 49, 48))} {rng.randrange(10**6, 10**9)}"
    row = {"name": name, "phone": phone, "country": rng.choice(COUNTRIES), "kind": kind}
    length = min(60, int(rng.lognormvariate(1.6, 0.9)))
    return row | {"note": None if rng.random() < 0.2 else " ".join(rng.choice(WORDS) for _ in range(length))}


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
