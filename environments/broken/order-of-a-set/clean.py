"""A seating plan: who sits where."""

from random import Random

from sandlot import Agent, Environment, Evidence, Task

GUESTS = {"Anouk", "Bela", "Chidi", "Dara", "Edda", "Farid", "Gesa", "Hugo", "Ines", "Jorn"}

env = Environment("seating", system="Reply with one name alone.")


@env.tasks
def tasks(rng: Random):
    guests = sorted(GUESTS)
    for number, guest in enumerate(guests):
        seats = rng.sample([name for name in guests if name != guest], 7)
        place = rng.randrange(1, 7)
        seats.insert(place, guest)
        prompt = f"Around the table sit {', '.join(seats)}. Who sits just before {seats[(place + 1) % len(seats)]}?"
        yield Task(f"seat-{number}", prompt=prompt, key={"name": guest})


@env.check(points=1)
def name_is_right(evidence: Evidence, task: Task) -> bool:
    return evidence.answer.strip().rstrip(".").casefold() == task.key["name"].casefold()


@env.solution
async def solve(agent: Agent, task: Task) -> None:
    await agent.say(task.key["name"])
