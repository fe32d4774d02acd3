"""Haggle: a seller and a buyer, each with a limit that the other does not know, agree on a price or go without.

They name prices in turn. A price that is as good as the other's last one makes the deal, at that last one. Each is rewarded by
its own share of what the deal is worth to both: what one gains on the price, the other loses. Without a deal both get nothing.
"""

import re
from random import Random

from sandlot import Agent, Environment, Evidence, Limits, Seat, Task, World

NUM_TASKS = 300
ASK = "Reply with the number alone."

env = Environment(
    "haggle",
    description="A seller and a buyer with hidden limits name prices in turn until they agree.",
    seats=[Seat("seller"), Seat("buyer")],
    order="in turn",
    limits=Limits(turns=2, tokens=40),
    state=lambda: {"prices": {}, "deal": None},
)


@env.tasks
def tasks(rng: Random):
    for number in range(1, NUM_TASKS + 1):
        cost, worth = rng.randrange(10, 41), rng.randrange(60, 100)
        yield Task(f"deal-{number:03}", data={"seller": cost, "buyer": worth}, key={"seller": cost, "buyer": worth})


@env.setup
def tell_limits(world: World, task: Task) -> None:
    world.tell("seller", f"You sell. It cost you {task.data['seller']}. What is your price? {ASK}")
    world.tell("buyer", f"You buy. It is worth {task.data['buyer']} to you.")


@env.user
def name_price(world: World, text: str) -> str | None:
    """A seat named a price: a deal if it is as good as the other's last one. Anything but a number ends the talk."""
    said = text.strip()
    if not re.fullmatch(r"[0-9]{1,3}", said):
        world.end()
        return ""
    prices, seat = world.state["prices"], world.seat
    other = "buyer" if seat == "seller" else "seller"
    prices[seat] = int(said)
    if other in prices and prices["buyer"] >= prices["seller"]:
        world.state["deal"] = prices[other]
        world.end()
        return ""
    world.tell(other, f"The {seat} says {said}. What is your price? {ASK}")
    return ""


@env.check(points=1, seat="seller")
def share_of_seller(evidence: Evidence, task: Task) -> tuple[float, str]:
    """What the seller gains of the value that a deal makes."""
    return share(evidence.state["deal"], task, lambda deal: deal - task.key["seller"])


@env.check(points=1, seat="buyer")
def share_of_buyer(evidence: Evidence, task: Task) -> tuple[float, str]:
    """What the buyer gains of the value that a deal makes."""
    return share(evidence.state["deal"], task, lambda deal: task.key["buyer"] - deal)


def share(deal: int | None, task: Task, gain) -> tuple[float, str]:
    if deal is None:
        return 0.0, "no deal"
    made = task.key["buyer"] - task.key["seller"]
    return min(1.0, max(0.0, gain(deal) / made)), f"a deal at {deal}; cost {task.key['seller']}, worth {task.key['buyer']}"


@env.solution
async def solve(agent: Agent, task: Task) -> None:
    """Both name the middle: a fair deal at once."""
    await agent.say(str((task.key["seller"] + task.key["buyer"]) // 2))
