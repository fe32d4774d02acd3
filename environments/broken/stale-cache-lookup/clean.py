"""A small CRM: look customers up and put corrections on file."""

import copy
from random import Random

from sandlot import Agent, Environment, Evidence, Task, ToolError, World

NAMES = ("Asha Rao", "Jonas Veit", "Lucía Prieto", "Mei Tanaka", "Ola Nowak", "Tom Hale")

env = Environment("crm", system="You keep the customer records of a small firm. Use the tools; say `done` when finished.")


@env.tasks
def tasks(rng: Random):
    for number in range(8):
        people = {}
        for name in NAMES:
            mobile = f"+49 15{rng.randrange(10**8, 10**9)}"
            people[f"C-{rng.randrange(1000, 10000)}"] = {
                "name": name,
                "phone": f"+49 30 {rng.randrange(10**6)}",
                "mobile": mobile,
            }
        who = rng.choice(sorted(people))
        prompt = f"Customer {who} moved out of the office: from now on the mobile number is the phone number on file."
        yield Task(f"move-{number}", prompt=prompt, data={"people": people}, key={"who": who, "phone": people[who]["mobile"]})


@env.setup
def fill(world: World, task: Task) -> None:
    world.state = {"people": copy.deepcopy(task.data["people"]), "cards": {}}


@env.tool
async def get_customer(world: World, customer: str) -> str:
    """Show one customer's card."""
    person = found(world, customer)
    if customer not in world.state["cards"]:
        world.state["cards"][customer] = f"{person['name']}: phone {person['phone']}, mobile {person['mobile']}"
    return world.state["cards"][customer]


@env.tool
async def set_phone(world: World, customer: str, phone: str) -> str:
    """Put another phone number on file."""
    found(world, customer)["phone"] = phone
    world.state["cards"].pop(customer, None)
    return f"Phone of {customer} saved."


def found(world: World, customer: str) -> dict[str, str]:
    if customer not in world.state["people"]:
        raise ToolError(f"no customer {customer!r}")
    return world.state["people"][customer]


@env.check(points=1)
def number_is_on_file(evidence: Evidence, task: Task) -> bool:
    return evidence.state["people"][task.key["who"]]["phone"] == task.key["phone"]


@env.solution
async def solve(agent: Agent, task: Task) -> None:
    await agent.call("set_phone", customer=task.key["who"], phone=task.key["phone"])
    await agent.say("done")
