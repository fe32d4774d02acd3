"""A canteen's till: top up prepaid cards by the amounts that are paid in."""

import copy
from random import Random

from sandlot import Agent, Environment, Evidence, Task, ToolError, World

env = Environment("canteen-cards", system="Top up the card by exactly the amount that was paid in.")


@env.tasks
def tasks(rng: Random):
    for number in range(8):
        cards = {f"K{rng.randrange(1000, 10000)}": rng.randrange(100, 3000) for _ in range(4)}
        card, cents = sorted(cards)[number % 4], rng.randrange(500, 4000)
        prompt = f"{cents} cents were paid in for card {card}. Top it up."
        yield Task(f"card-{number}", prompt=prompt, data={"cards": cards}, key={"card": card, "cents": cents})


@env.setup
def fill(world: World, task: Task) -> None:
    world.state = {"cards": copy.deepcopy(task.data["cards"])}


@env.tool
async def balance(world: World, card: str) -> int:
    """The cents on a card."""
    return found(world, card)[card]


@env.tool
async def top_up(world: World, card: str, cents: int) -> str:
    """Put money on a card."""
    cards = found(world, card)
    if cents <= 0:
        raise ToolError(f"{cents} cents is no amount")
    cards[card] += cents
    return f"{card} has {cards[card]} cents."


def found(world: World, card: str) -> dict:
    if card not in world.state["cards"]:
        raise ToolError(f"no card {card!r}")
    return world.state["cards"]


@env.check(points=2)
def card_is_topped_up(evidence: Evidence, task: Task) -> bool:
    before, after = task.data["cards"], evidence.state["cards"]
    others = [card for card in before if card != task.key["card"]]
    return after[task.key["card"]] >= before[task.key["card"]] + task.key["cents"] and all(after[c] == before[c] for c in others)


@env.solution
async def solve(agent: Agent, task: Task) -> None:
    await agent.call("top_up", card=task.key["card"], cents=task.key["cents"])
    await agent.say("The card is topped up.")
