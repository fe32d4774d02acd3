"""A bureau of exchange: what does a customer get?"""

import json
from random import Random

from sandlot import Agent, Environment, Evidence, Task, ToolError, World

TABLE = json.loads('{"CHF": 94, "DKK": 746, "NOK": 1171, "PLN": 427, "SEK": 1121}')

env = Environment("exchange", system="Ask for the rate (hundredths for one euro). Reply with whole hundredths alone.")


@env.tasks
def tasks(rng: Random):
    for number in range(8):
        currency, euros = sorted(TABLE)[number % len(TABLE)], rng.randrange(20, 900)
        yield Task(
            f"customer-{number}",
            prompt=f"A customer changes {euros} euros to {currency}.",
            key={"currency": currency, "euros": euros},
        )


def rates() -> dict[str, int]:
    return TABLE


@env.tool
def rate(world: World, currency: str) -> int:
    """Hundredths of a currency for one euro."""
    if currency not in TABLE:
        raise ToolError(f"no rate for {currency!r}; there are {', '.join(TABLE)}")
    return rates()[currency]


def number(text: str) -> float | None:
    try:
        return float(text.strip().rstrip(".").replace(",", ""))
    except ValueError:
        return None


@env.check(points=1)
def sum_is_right(evidence: Evidence, task: Task) -> bool:
    return number(evidence.answer) == rates()[task.key["currency"]] * task.key["euros"]


@env.solution
async def solve(agent: Agent, task: Task) -> None:
    await agent.say(str(int(await agent.call("rate", currency=task.key["currency"])) * task.key["euros"]))
