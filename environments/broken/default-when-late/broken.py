"""Plan a delivery tour: every address once, then back."""

from concurrent.futures import ThreadPoolExecutor
from concurrent.futures import TimeoutError as LateError
from itertools import permutations
from random import Random
from time import sleep

from sandlot import Agent, Environment, Evidence, Task

ADDRESSES = "ABCDEF"
LEG_S = 0.001

env = Environment("tour", system="Reply with the addresses in the order of the shortest round tour, such as `ABCDEF`.")


@env.tasks
def tasks(rng: Random):
    for number in range(6):
        places = {name: [rng.randrange(100), rng.randrange(100)] for name in ADDRESSES}
        best = min(permutations(ADDRESSES), key=lambda tour: length(tour, places))
        prompt = "; ".join(f"{name} is at {east}, {north}" for name, (east, north) in places.items())
        yield Task(f"tour-{number}", prompt=prompt, key={"places": places, "tour": "".join(best)})


def length(tour, places: dict[str, list[int]]) -> float:
    legs = zip(tour, [*tour[1:], tour[0]], strict=True)
    return sum(((places[a][0] - places[b][0]) ** 2 + (places[a][1] - places[b][1]) ** 2) ** 0.5 for a, b in legs)


def routed(tour: str, task: Task) -> float:
    """The stand-in of the routing service: it takes its time for every leg, up to two thousand."""
    known = [name for name in tour[:2000] if name in ADDRESSES]
    sleep(LEG_S * len(tour[:2000]))
    return length(known, task.key["places"]) if known else 0.0


@env.check(points=1)
def tour_is_short(evidence: Evidence, task: Task) -> float:
    tour = "".join(evidence.answer.upper().rstrip(". ").split())
    pool = ThreadPoolExecutor(1)
    try:
        driven = pool.submit(routed, tour, task).result(timeout=1.5)
    except LateError:
        return 0.5
    finally:
        pool.shutdown(wait=False)
    if sorted(tour) != sorted(ADDRESSES):
        return 0.0
    return float(driven <= length(task.key["tour"], task.key["places"]) + 1e-9)


@env.solution
async def solve(agent: Agent, task: Task) -> None:
    await agent.say(task.key["tour"])
