"""A kitchen order pad: put dishes on a table's bill."""

from dataclasses import dataclass
from random import Random

from sandlot import Agent, Environment, Evidence, Task, World
from sandlot.ports import ToolCall, ToolResult, ToolSpec

MENU = ("soup", "pasta", "salad", "bread", "cake")

env = Environment("order-pad", system=f"Put every dish on the bill. The menu: {', '.join(MENU)}. Say `done` when finished.")


@env.tasks
def tasks(rng: Random):
    for number in range(8):
        bill = {dish: rng.randrange(1, 9) for dish in rng.sample(MENU, 3)}
        prompt = "The table orders " + ", ".join(f"{count} {dish}" for dish, count in bill.items()) + "."
        yield Task(f"table-{number}", prompt=prompt, key={"bill": bill})


@dataclass(frozen=True)
class Pad:
    """One tool, described by hand."""

    spec: ToolSpec
    concurrent: bool = False

    async def call(self, world: World, call: ToolCall) -> ToolResult:
        dish = call.arguments.get("dish")
        amount = call.arguments.get("quantity")
        known = isinstance(dish, str) and dish in MENU
        if not known or not isinstance(amount, int) or isinstance(amount, bool) or not 0 < amount < 100:
            return ToolResult(call=call.id, text="Give `dish` from the menu and `quantity` from 1 to 99.", error=True)
        world.state[dish] = world.state.get(dish, 0) + amount
        return ToolResult(call=call.id, text=f"{world.state[dish]} {dish} on the bill.")


SCHEMA = {
    "type": "object",
    "properties": {"dish": {"type": "string", "enum": list(MENU)}, "quantity": {"type": "integer", "minimum": 1, "maximum": 99}},
    "required": ["dish", "quantity"],
    "additionalProperties": False,
}
env.marked.tools.append(Pad(ToolSpec(name="add_dish", description="Put a dish on the bill.", parameters=SCHEMA)))


@env.check(points=3)
def bill_is_right(evidence: Evidence, task: Task) -> float:
    bill = task.key["bill"]
    extra = sum(dish not in bill for dish in evidence.state)
    return max(0.0, (sum(evidence.state.get(dish) == count for dish, count in bill.items()) - extra) / len(bill))


@env.solution
async def solve(agent: Agent, task: Task) -> None:
    for dish, count in task.key["bill"].items():
        await agent.call("add_dish", dish=dish, quantity=count)
    await agent.say("done")
