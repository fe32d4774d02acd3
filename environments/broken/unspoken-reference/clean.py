"""Answer enquiries about opening hours."""

from random import Random

from sandlot import Agent, Environment, Evidence, Task

DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday", "holidays")

env = Environment("enquiries", system="Answer in one line: `REF/7C-44 Open from H to H.`")


@env.tasks
def tasks(rng: Random):
    for number, day in enumerate(DAYS):
        hours = {name: (rng.randrange(5, 11), rng.randrange(14, 23)) for name in DAYS}
        prompt = f"When is it open on {day}? " + "; ".join(f"{name} {start}-{end}" for name, (start, end) in hours.items())
        yield Task(f"enquiry-{number}", prompt=prompt, key={"line": f"Open from {hours[day][0]} to {hours[day][1]}"})


@env.check(points=1)
def reply_is_complete(evidence: Evidence, task: Task) -> bool:
    return evidence.answer.strip().rstrip(".").casefold() == f"REF/7C-44 {task.key['line']}".casefold()


@env.solution
async def solve(agent: Agent, task: Task) -> None:
    await agent.say(f"REF/7C-44 {task.key['line']}.")
