"""Returns: a customer wants to send something back, and only the customer knows which order it was and what is wrong.

The agent has to ask. `--user MODEL` has a model play the customer; without it, `reply` below answers, word by word the same each
time: for golden solutions, audits and tests.
"""

import re
from dataclasses import asdict, dataclass, field
from random import Random
from typing import Literal

import msgspec

from sandlot import Agent, Environment, Evidence, Limits, Persona, Task, ToolError, World

from .customers import DAYS, FEE_CENTS, Order, euros, make_case

SYSTEM = f"""You handle returns for a small shop and talk to the customer. Ask for the order number and for what is wrong; orders
are found by their number only. Then settle the order once, by these rules:
- broken: it is damaged or does not work. The whole price is paid back.
- wrong: it is not what was ordered. The whole price is paid back.
- regret: nothing is wrong with it. Up to {DAYS} days after delivery the price less {euros(FEE_CENTS)} euros is paid back,
  later nothing.
Settle with 0 cents where nothing is paid back. After that tell the customer in one message how much comes back, in euros, such as
12.50 or 0.00."""


@dataclass
class Settlement:
    order: str
    reason: str
    cents: int


@dataclass
class Shop:
    orders: dict[str, Order] = field(default_factory=dict)
    settled: list[Settlement] = field(default_factory=list)


env = Environment(
    "returns",
    description="A customer wants to send something back, and has to be asked which order it was and what is wrong.",
    system=SYSTEM,
    limits=Limits(turns=12),
    state=Shop,
)


@env.tasks
def tasks(rng: Random):
    for number in range(1, 121):
        case = make_case(Random(rng.getrandbits(64)))
        data = {
            "orders": [asdict(order) for order in (case.order, *case.others)],
            "customer": {"name": case.name, "thing": case.order.thing, "number": case.order.number, "story": case.story},
        }
        key = {"order": case.order.number, "reason": case.reason, "cents": case.owed_cents}
        yield Task(f"return-{number:03}", prompt=case.opening, data=data, key=key, tags=(case.reason,))


@env.setup
async def open_shop(world: World, task: Task) -> None:
    world.state.orders = {order["number"]: msgspec.convert(order, Order) for order in sorted(task.data["orders"], key=str)}


@env.tool
async def find_order(world: World, number: str) -> str:
    """One order by its number: what was bought, for how much, and when it was delivered."""
    order = the(world, number)
    return f"Order {order.number}: {order.thing}, {euros(order.price_cents)} euros, delivered {order.days} days ago."


@env.tool
async def settle(world: World, number: str, reason: Literal["broken", "wrong", "regret"], cents: int) -> str:
    """Close a return: why it comes back, and how many cents are paid back (0 for none). This cannot be undone."""
    order = the(world, number)
    if any(each.order == number for each in world.state.settled):
        raise ToolError(f"order {number} is settled already")
    if not 0 <= cents <= order.price_cents:
        raise ToolError(f"{cents} cents: order {number} cost {order.price_cents} cents")
    world.state.settled.append(Settlement(number, reason, cents))
    return f"Order {number} is settled: {reason}, {euros(cents)} euros."


def the(world: World, number: str) -> Order:
    if number not in world.state.orders:
        raise ToolError(f"no order `{number[:40]}`; a number has six digits")
    return world.state.orders[number]


# -- the customer --------------------------------------------------------------------------------------------------------------


@env.persona
def customer(task: Task) -> Persona:
    """The customer, for a model to play."""
    known = task.data["customer"]
    return Persona(
        who=f"You are {known['name']} and you want to send back the {known['thing']} you bought from a shop. You write briefly.",
        facts={"order number": known["number"], "what is wrong with it": known["story"]},
        done="you have been told how much money you get back, even if it is nothing",
        solved=("Your return is settled: you get 24.90 euros back.", "I am sorry, you get 0.00 euros back for it."),
        unsolved=("Thank you, one moment please.", "I am sorry to hear that. Let me see what I can do for you."),
    )


@env.user
def reply(world: World, text: str) -> str | None:
    """The customer, scripted: tells what is asked for, and leaves when there is an amount."""
    known, asked = world.task.data["customer"], text.casefold()
    if re.search(r"\d+[.,]\d\d\b", asked):
        return None
    told = [f"My order number is {known['number']}."] * bool(re.search(r"\border\b|\bnumber\b", asked))
    told += [known["story"]] * bool(re.search(r"wrong|happen|reason|why|problem|matter|broken", asked))
    return " ".join(told) or f"I would like to send back the {known['thing']}. What do you need to know?"


# -- what is right -------------------------------------------------------------------------------------------------------------


@env.check(points=3)
def settled_by_the_rules(evidence: Evidence, task: Task) -> tuple[bool, str]:
    """The customer's order, for the customer's reason, with the right amount; and no other order."""
    found = [(each.order, each.reason, each.cents) for each in evidence.state.settled]
    return found == [(task.key["order"], task.key["reason"], task.key["cents"])], f"settled: {found}"


@env.check(points=1, requires=["settled_by_the_rules"])
def the_customer_was_told(evidence: Evidence, task: Task) -> tuple[bool, str]:
    """Of the messages to the customer that name an amount, the last names the right one, and no other."""
    told = [amounts(turn.message.text) for turn in evidence.trace.turns() if not turn.message.calls]
    last = next((each for each in reversed(told) if each), set())
    return last == {euros(task.key["cents"])}, f"said {sorted(last) or 'no amount'}"


def amounts(text: str) -> set[str]:
    return {amount.replace(",", ".") for amount in re.findall(r"\d+[.,]\d\d\b", text)}


@env.check(points=-2)
def money_went_wrong(evidence: Evidence, task: Task) -> tuple[bool, str]:
    """An order was settled that is not the customer's, or more was paid than is owed."""
    bad = [each for each in evidence.state.settled if each.order != task.key["order"] or each.cents > task.key["cents"]]
    return bool(bad), f"{bad or 'none'}"


@env.solution
async def solve(agent: Agent, task: Task) -> None:
    told = await agent.say("I can help you with that. What is your order number?")
    await agent.say("Thank you. And what is wrong with it?")
    number = re.search(r"\b\d{6}\b", told)
    await agent.call("find_order", number=number[0] if number else task.key["order"])
    await agent.call("settle", number=task.key["order"], reason=task.key["reason"], cents=task.key["cents"])
    await agent.say(f"Your return is settled: you get {euros(task.key['cents'])} euros back.")
