"""Pick the right warehouse for a delivery from a short list."""

from random import Random

from sandlot import Agent, Environment, Evidence, Task

TOWNS = ("Aarhus", "Bergen", "Cork", "Dijon", "Evora", "Fulda", "Ghent", "Hasselt", "Ipswich", "Jena", "Kuopio", "Lodz")

env = Environment("depots", system="Reply with the name of one town and nothing else.")


@env.tasks
def tasks(rng: Random):
    towns = rng.sample(TOWNS, len(TOWNS))
    for number in range(10):
        nearest = towns[number]
        distances = {town: rng.randrange(120, 900) for town in rng.sample([town for town in TOWNS if town != nearest], 4)}
        distances[nearest] = rng.randrange(20, 110)
        listed = ", ".join(f"{town} {distance} km" for town, distance in sorted(distances.items()))
        yield Task(f"depot-{number}", prompt=f"Which depot is nearest? {listed}.", key={"town": nearest})


@env.check(points=1)
def depot_is_nearest(evidence: Evidence, task: Task) -> bool:
    return evidence.answer.strip().rstrip(".").casefold() == task.key["town"].casefold()


@env.solution
async def solve(agent: Agent, task: Task) -> None:
    await agent.say(task.key["town"])
