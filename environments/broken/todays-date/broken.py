"""Overdue invoices: how late is this one?"""

from datetime import date, timedelta
from random import Random

from sandlot import Agent, Environment, Evidence, Task

env = Environment("overdue", system="Reply with the number of days alone.")


@env.tasks
def tasks(rng: Random):
    for number in range(8):
        due = date(2025, 1, 1) + timedelta(days=rng.randrange(300))
        prompt = f"An invoice was due on {due.isoformat()}. How many days overdue is it today?"
        yield Task(f"overdue-{number}", prompt=prompt, key={"due": due.isoformat()})


@env.tool
async def calendar() -> str:
    """Today's date."""
    return date.today().isoformat()


def overdue(due: str) -> int:
    return (date.today() - date.fromisoformat(due)).days


def number(text: str) -> float | None:
    try:
        return float(text.strip().rstrip(".").replace(",", ""))
    except ValueError:
        return None


@env.check(points=1)
def days_are_right(evidence: Evidence, task: Task) -> bool:
    return number(evidence.answer) == overdue(task.key["due"])


@env.solution
async def solve(agent: Agent, task: Task) -> None:
    await agent.say(str(overdue(task.key["due"])))
