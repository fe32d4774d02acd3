"""Bank transfers: pay invoices."""

from random import Random

from sandlot import Agent, Environment, Evidence, Task, ToolError, World

CAP = 100_000

env = Environment("transfers", system="Pay the invoice in full with one transfer, then say `done`.")


@env.tasks
def tasks(rng: Random):
    for number in range(8):
        rows = [rng.randrange(3_000, 16_000) + 4_000 * (number % 2) for _ in range(5)]
        account = f"DE{rng.randrange(10**9, 10**10)}"
        prompt = f"Invoice to {account}: positions of {', '.join(map(str, rows))} cents."
        yield Task(f"invoice-{number}", prompt=prompt, key={"account": account, "cents": sum(rows)})


@env.setup
def open_account(world: World, task: Task) -> None:
    world.state = {"paid": []}


@env.tool
async def transfer(world: World, account: str, cents: int) -> str:
    """Send money to an account."""
    if not 0 < cents <= CAP:
        raise ToolError(f"a transfer is between 1 and {CAP} cents")
    world.state["paid"].append([account, cents])
    return f"Sent {cents} cents to {account}."


@env.check(points=1)
def invoice_is_paid(evidence: Evidence, task: Task) -> bool:
    return evidence.state["paid"] == [[task.key["account"], task.key["cents"]]]


@env.solution
async def solve(agent: Agent, task: Task) -> None:
    await agent.call("transfer", account=task.key["account"], cents=task.key["cents"])
    await agent.say("done")
