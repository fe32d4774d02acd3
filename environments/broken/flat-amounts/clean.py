"""A day's orders: add up what is asked."""

from random import Random

from sandlot import Agent, Environment, Evidence, Task, World

STATES = ("paid",) * 16 + ("open",) * 2 + ("cancelled",) + ("refunded",)

env = Environment("day-orders", system="Read the orders. Reply with the sum in cents alone.")


@env.tasks
def tasks(rng: Random):
    for number in range(8):
        orders = [order(rng) for _ in range(40)]
        total = sum(row["cents"] for row in orders if row["state"] == "paid")
        yield Task(f"day-{number}", prompt="What is the sum of all paid orders?", data={"orders": orders}, key={"total": total})


def order(rng: Random) -> dict:
    cents = max(99, int(rng.lognormvariate(7.6, 1.1)))
    return {"cents": cents, "items": 1 + min(40, int(rng.expovariate(0.8))), "state": rng.choice(STATES)}


@env.tool
async def read_orders(world: World) -> list[dict]:
    """All orders of the day."""
    return world.task.data["orders"]


def number(text: str) -> float | None:
    try:
        return float(text.strip().rstrip(".").replace(",", ""))
    except ValueError:
        return None


@env.check(points=1)
def total_is_right(evidence: Evidence, task: Task) -> bool:
    return number(evidence.answer) == task.key["total"]


@env.solution
async def solve(agent: Agent, task: Task) -> None:
    await agent.say(str(task.key["total"]))
