"""Answer questions about a customer's orders."""

from random import Random

import anyio

from sandlot import Agent, Environment, Evidence, Task, ToolError, World

PATIENCE_S = 0.02
ROW_S = 0.0005

env = Environment("orders", system="Use `find_orders`. Reply with one whole number.")


@env.tasks
def tasks(rng: Random):
    for number in range(8):
        names = {f"K-{rng.randrange(100, 1000)}": rng.randrange(3, 30) for _ in range(3)}
        names[f"K-{rng.randrange(1000, 9999)}"] = rng.randrange(90, 140)
        orders = {name: [rng.randrange(100, 5000) for _ in range(count)] for name, count in names.items()}
        who = sorted(orders)[number % len(orders)]
        prompt = f"What is the largest order of customer {who}, in cents? A customer without orders has 0."
        yield Task(f"largest-{number}", prompt=prompt, data={"orders": orders}, key={"largest": max(orders[who])})


@env.setup
def fill(world: World, task: Task) -> None:
    world.state = {"orders": task.data["orders"]}


async def fetch(world: World, customer: str) -> list[int]:
    rows = world.state["orders"].get(customer, [])
    await anyio.sleep(ROW_S * len(rows))
    return rows


@env.tool
async def find_orders(world: World, customer: str) -> str:
    """All orders of a customer, in cents."""
    with anyio.move_on_after(PATIENCE_S * 100) as patience:
        rows = await fetch(world, customer)
    if patience.cancelled_caught:
        raise ToolError("the order service did not answer in time; this says nothing about the orders")
    return ", ".join(map(str, rows)) or "No orders found."


def number(text: str) -> float | None:
    try:
        return float(text.strip().rstrip(".").replace(",", ""))
    except ValueError:
        return None


@env.check(points=1)
def largest_is_right(evidence: Evidence, task: Task) -> bool:
    return number(evidence.answer) == task.key["largest"]


@env.solution
async def solve(agent: Agent, task: Task) -> None:
    await agent.say(str(task.key["largest"]))
