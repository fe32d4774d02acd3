"""Insurance cases: work out what is paid."""

from random import Random

from sandlot import Agent, Environment, Evidence, Task, World

env = Environment("claims", system="Read the case. Reply with the cents to be paid, as a number.")


@env.tasks
def tasks(rng: Random):
    for number in range(8):
        damage, excess, share = rng.randrange(50000, 900000), rng.randrange(10, 40) * 1000, rng.choice((60, 70, 85, 90))
        paid = (damage - excess) * share // 100
        case = {
            "damage_cents": damage,
            "excess_cents": excess,
            "share_percent": share,
            "note": "excess first, then the share, rounded down",
        }
        yield Task(
            f"case-{number}", prompt="What is paid?", data={"case": case | {"decision": {"payable": paid}}}, key={"paid": paid}
        )


@env.tool
async def read_case(world: World) -> dict:
    """The case as it is on file."""
    return world.task.data["case"]


def number(text: str) -> float | None:
    try:
        return float(text.strip().rstrip(".").replace(",", ""))
    except ValueError:
        return None


@env.check(points=1)
def payment_is_right(evidence: Evidence, task: Task) -> bool:
    return number(evidence.answer) == task.key["paid"]


@env.solution
async def solve(agent: Agent, task: Task) -> None:
    await agent.say(str(task.key["paid"]))
