"""A shop's desk: cancel an order with the code that stands in its record."""

import copy
from random import Random

from sandlot import Agent, Environment, Evidence, Task, ToolError, World

env = Environment("cancellations", system="Cancel the order that is named. The code for it stands in the order's record.")


@env.tasks
def tasks(rng: Random):
    for number in range(8):
        orders = {f"O-{rng.randrange(1000, 10000)}": {"code": f"{rng.randrange(10**4):04}", "open": True} for _ in range(4)}
        order = sorted(orders)[number % 4]
        prompt = f"Cancel order {order}."
        yield Task(
            f"cancel-{number}", prompt=prompt, data={"orders": orders}, key={"order": order, "code": orders[order]["code"]}
        )


@env.setup
def fill(world: World, task: Task) -> None:
    world.state = {"orders": copy.deepcopy(task.data["orders"])}


@env.tool
async def show_order(world: World, order: str) -> str:
    """The record of an order."""
    row = found(world, order)
    return f"{order}: code {row['code']}, {'open' if row['open'] else 'cancelled'}"


@env.tool
async def cancel_order(world: World, order: str, code: str) -> str:
    """Cancel an order with its code."""
    row = found(world, order)
    if code != row["code"]:
        raise ToolError(f"{code!r} is not the code of {order}")
    row["open"] = False
    return f"{order} is cancelled."


def found(world: World, order: str) -> dict:
    if order not in world.state["orders"]:
        raise ToolError(f"no order {order!r}")
    return world.state["orders"][order]


@env.check(points=2)
def order_is_cancelled(evidence: Evidence, task: Task) -> bool:
    calls = [call for node in evidence.trace.nodes for call in node.message.calls]
    return any(call.name == "cancel_order" and call.arguments.get("order") == task.key["order"] for call in calls)


@env.solution
async def solve(agent: Agent, task: Task) -> None:
    await agent.call("show_order", order=task.key["order"])
    await agent.call("cancel_order", order=task.key["order"], code=task.key["code"])
    await agent.say(f"Order {task.key['order']} is cancelled.")
