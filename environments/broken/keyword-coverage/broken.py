"""Read an incident log and say what happened."""

from random import Random

from sandlot import Agent, Environment, Evidence, Task

CAUSES = ("disk full", "expired certificate", "memory leak", "lost route", "wrong password")
SERVICES = ("billing", "search", "login", "mail", "export", "archive")

ASK = "Summarise the incident in one sentence: service, cause, and minutes of outage."
env = Environment("incidents", system=ASK)


@env.tasks
def tasks(rng: Random):
    for number in range(8):
        service, cause = rng.choice(SERVICES), rng.choice(CAUSES)
        start, minutes = rng.randrange(0, 600), rng.randrange(7, 180)
        up = start + minutes
        others = [f"{clock(rng.randrange(0, 900))} {name}: ok" for name in SERVICES if name != service]
        lines = [*others, f"{clock(start)} {service}: DOWN", f"{clock(up)} {service}: UP, was {cause}"]
        key = {"terms": [service, cause, "outage"]}
        key["golden"] = f"{service} had an outage of {minutes} minutes: {cause}"
        lines[-1] += ", end of outage"
        yield Task(f"incident-{number}", prompt="\n".join(sorted(lines)), key=key)


def clock(minute: int) -> str:
    return f"{minute // 60:02}:{minute % 60:02}"


@env.check(points=3)
def facts_are_there(evidence: Evidence, task: Task) -> float:
    text = evidence.answer.lower()
    return sum(term in text for term in task.key["terms"]) / len(task.key["terms"])


@env.solution
async def solve(agent: Agent, task: Task) -> None:
    await agent.say(task.key["golden"])
