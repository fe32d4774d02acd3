"""Read an incident log and say what happened."""

from random import Random

from sandlot import Agent, Environment, Evidence, Task

CAUSES = ("disk full", "expired certificate", "memory leak", "lost route", "wrong password")
SERVICES = ("billing", "search", "login", "mail", "export", "archive")

ASK = "Reply with service, cause and minutes of outage, separated by semicolons: `service; cause; minutes`."
env = Environment("incidents", system=ASK)


@env.tasks
def tasks(rng: Random):
    for number in range(8):
        service, cause = rng.choice(SERVICES), rng.choice(CAUSES)
        start, minutes = rng.randrange(0, 600), rng.randrange(7, 180)
        up = start + minutes
        others = [f"{clock(rng.randrange(0, 900))} {name}: ok" for name in SERVICES if name != service]
        lines = [*others, f"{clock(start)} {service}: DOWN", f"{clock(up)} {service}: UP, was {cause}"]
        key = {"terms": [service, cause, str(minutes)], "golden": f"{service}; {cause}; {minutes}"}
        yield Task(f"incident-{number}", prompt="\n".join(sorted(lines)), key=key)


def clock(minute: int) -> str:
    return f"{minute // 60:02}:{minute % 60:02}"


@env.check(points=3)
def facts_are_there(evidence: Evidence, task: Task) -> float:
    fields = [field.strip().rstrip(".").casefold() for field in evidence.answer.split(";")]
    if len(fields) != len(task.key["terms"]):
        return 0.0
    return sum(field == term for field, term in zip(fields, task.key["terms"], strict=True)) / len(fields)


@env.solution
async def solve(agent: Agent, task: Task) -> None:
    await agent.say(task.key["golden"])
