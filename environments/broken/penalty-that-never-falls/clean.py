"""Accounts payable: pay open bills once."""

from random import Random

from sandlot import Agent, Environment, Evidence, Task, ToolError, World

env = Environment("payables", system="Pay every open bill once, in full. Say `done` when finished.")


@env.tasks
def tasks(rng: Random):
    for number in range(8):
        bills = {f"B-{rng.randrange(1000, 9999)}": rng.randrange(500, 90000) for _ in range(4)}
        prompt = "Open bills: " + ", ".join(f"{bill} of {cents} cents" for bill, cents in bills.items())
        yield Task(f"bills-{number}", prompt=prompt, data={"bills": bills}, key={"bills": bills})


@env.setup
def fill(world: World, task: Task) -> None:
    world.state = {"paid": {bill: [] for bill in task.data["bills"]}, "doubles": []}


@env.tool
async def pay(world: World, bill: str, cents: int) -> str:
    """Pay a bill."""
    if bill not in world.state["paid"] or not 0 < cents < 10**7:
        raise ToolError("give an open bill and 1 to 9999999 cents")
    world.state["paid"][bill].append(cents)
    return f"Paid {cents} for {bill}."


@env.check(points=4)
def bills_are_paid(evidence: Evidence, task: Task) -> float:
    return sum(cents in evidence.state["paid"][bill] for bill, cents in task.key["bills"].items()) / len(task.key["bills"])


@env.check(points=-4)
def something_was_paid_twice(evidence: Evidence, task: Task) -> bool:
    return any(len(payments) > 1 for payments in evidence.state["paid"].values())


@env.solution
async def solve(agent: Agent, task: Task) -> None:
    for bill, cents in task.key["bills"].items():
        await agent.call("pay", bill=bill, cents=cents)
    await agent.say("done")
