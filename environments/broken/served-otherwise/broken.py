"""Refunds: pay back what a customer is owed."""

import copy
from random import Random

from sandlot import Agent, Environment, Evidence, Task, ToolError, World

REASONS = ("late", "damaged", "double")

env = Environment("refunds", system="Refund the order as told, then say `done`.")


@env.tasks
def tasks(rng: Random):
    for number in range(8):
        orders = {f"ORD-{rng.randrange(1000, 10000)}": {"cents": rng.randrange(20, 400) * 100, "refunded": 0} for _ in range(3)}
        order, percent, reason = rng.choice(sorted(orders)), rng.choice((10, 25, 50)), rng.choice(REASONS)
        key = {"order": order, "cents": orders[order]["cents"] * percent // 100, "reason": reason}
        prompt = f"Order {order} was {reason}; the customer gets {percent} percent of its price back."
        yield Task(f"refund-{number}", prompt=prompt, data={"orders": orders}, key=key)


@env.setup
def fill(world: World, task: Task) -> None:
    world.state = {"orders": copy.deepcopy(task.data["orders"])}


@env.tool
async def get_order(world: World, order: str) -> str:
    """Price and refunds of an order."""
    row = found(world, order)
    return f"{order}: {row['cents']} cents, refunded {row['refunded']}"


@env.tool
async def refund(world: World, order: str, euros: float) -> str:
    """Pay money back for an order."""
    row = found(world, order)
    cents = round(euros * 100)
    if not 0 < cents <= row["cents"] - row["refunded"]:
        raise ToolError(f"{order} can be refunded up to {row['cents'] - row['refunded']} cents")
    row["refunded"] += cents
    return f"Refunded {cents} cents."


def found(world: World, order: str) -> dict:
    if order not in world.state["orders"]:
        raise ToolError(f"no order {order!r}")
    return world.state["orders"][order]


@env.check(points=1)
def refund_is_right(evidence: Evidence, task: Task) -> bool:
    row = evidence.state["orders"][task.key["order"]]
    return row["refunded"] == task.key["cents"]


@env.solution
async def solve(agent: Agent, task: Task) -> None:
    await agent.call("refund", order=task.key["order"], euros=task.key["cents"] / 100)
    await agent.say("done")
