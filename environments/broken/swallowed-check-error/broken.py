"""Book a day's receipts to the right accounts."""

from random import Random

from sandlot import Agent, Environment, Evidence, Task, ToolError, World

CHART = {"4400": "paper", "4510": "fuel", "4650": "meals", "4670": "travel", "4910": "postage"}

env = Environment("receipts", system=f"Book every receipt once. The accounts: {CHART}. Say `done` when finished.")


@env.tasks
def tasks(rng: Random):
    for number in range(8):
        receipts = [{"for": rng.choice(sorted(CHART.values())), "cents": rng.randrange(100, 9000)} for _ in range(4)]
        prompt = "Receipts: " + "; ".join(f"{row['for']} {row['cents']} cents" for row in receipts)
        yield Task(f"day-{number}", prompt=prompt, key={"receipts": receipts})


@env.setup
def open_book(world: World, task: Task) -> None:
    world.state = {"bookings": []}


@env.tool
async def book(world: World, account: str, cents: int) -> str:
    """Book an amount to an account."""
    if not 0 < cents < 10**9:
        raise ToolError("an amount is between 1 and 999999999 cents")
    world.state["bookings"].append({"account": account, "cents": cents})
    return f"Booked {cents} to {account}."


@env.check(points=4)
def receipts_are_booked(evidence: Evidence, task: Task) -> float:
    try:
        booked = [(CHART[row["account"]], row["cents"]) for row in evidence.state["bookings"]]
        wanted = [(row["for"], row["cents"]) for row in task.key["receipts"]]
        return share(booked, wanted)
    except Exception:
        return 0.0


def share(booked: list[tuple[str, int]], wanted: list[tuple[str, int]]) -> float:
    left = list(wanted)
    for row in booked:
        if row in left:
            left.remove(row)
    wrong = len(booked) - (len(wanted) - len(left))
    return max(0.0, (len(wanted) - len(left) - wrong) / len(wanted))


@env.solution
async def solve(agent: Agent, task: Task) -> None:
    accounts = {name: account for account, name in CHART.items()}
    for row in task.key["receipts"]:
        await agent.call("book", account=accounts[row["for"]], cents=row["cents"])
    await agent.say("done")
