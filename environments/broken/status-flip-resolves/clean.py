"""A returns desk: pay back what is owed for each return, then close its ticket."""

import copy
from random import Random

from sandlot import Agent, Environment, Evidence, Task, ToolError, World

env = Environment("returns-desk", system="For every open return: refund what was paid less the postage, then resolve the ticket.")


@env.tasks
def tasks(rng: Random):
    for number in range(8):
        tickets = {}
        for _ in range(3):
            paid, postage = rng.randrange(2000, 9000), rng.randrange(300, 900)
            tickets[f"R-{rng.randrange(100, 1000)}"] = {"paid": paid, "postage": postage, "refunded": 0, "status": "open"}
        owed = {ticket: row["paid"] - row["postage"] for ticket, row in tickets.items()}
        yield Task(f"returns-{number}", prompt="Work all open returns.", data={"tickets": tickets}, key={"owed": owed})


@env.setup
def open_desk(world: World, task: Task) -> None:
    world.state = {"tickets": copy.deepcopy(task.data["tickets"])}


@env.tool
async def list_returns(world: World) -> str:
    """Every return with what was paid, in cents."""
    return "\n".join(
        f"{name}: paid {row['paid']}, postage {row['postage']}, {row['status']}" for name, row in world.state["tickets"].items()
    )


@env.tool
async def refund(world: World, ticket: str, cents: int) -> str:
    """Pay money back for a return."""
    row = found(world, ticket)
    if not 0 < cents <= row["paid"] - row["refunded"]:
        raise ToolError(f"{cents} cents cannot be refunded on {ticket}")
    row["refunded"] += cents
    return f"Refunded {cents} cents."


@env.tool
async def resolve(world: World, ticket: str) -> str:
    """Mark a return as resolved."""
    found(world, ticket)["status"] = "resolved"
    return f"{ticket} is resolved."


def found(world: World, ticket: str) -> dict:
    if ticket not in world.state["tickets"]:
        raise ToolError(f"no return {ticket!r}")
    return world.state["tickets"][ticket]


@env.check(points=3)
def returns_are_done(evidence: Evidence, task: Task) -> float:
    rows = evidence.state["tickets"]
    owed = task.key["owed"]
    done = [ticket for ticket, row in rows.items() if row["status"] == "resolved" and row["refunded"] == owed[ticket]]
    return len(done) / len(rows)


@env.solution
async def solve(agent: Agent, task: Task) -> None:
    for ticket, cents in task.key["owed"].items():
        await agent.call("refund", ticket=ticket, cents=cents)
        await agent.call("resolve", ticket=ticket)
    await agent.say("All returns are worked.")
