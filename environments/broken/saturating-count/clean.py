"""Find the faulty rows of a small table."""

from random import Random

from sandlot import Agent, Environment, Evidence, Task

env = Environment("audit-table", system="Reply with the row numbers that do not add up, separated by commas.")


@env.tasks
def tasks(rng: Random):
    for number in range(8):
        faulty = sorted(rng.sample(range(1, 41), 6))
        rows = []
        for row in range(1, 41):
            net, tax = rng.randrange(100, 999), rng.randrange(10, 99)
            rows.append(f"row {row}: {net} + {tax} = {net + tax + (rng.randrange(1, 9) if row in faulty else 0)}")
        yield Task(f"table-{number}", prompt="\n".join(rows), key={"rows": faulty})


@env.check(points=6)
def faults_are_found(evidence: Evidence, task: Task) -> float:
    words = {word.strip().rstrip(".") for word in evidence.answer.split(",")}
    named = {int(word) for word in words if word.isascii() and word.isdigit() and len(word) < 4}
    wanted = set(task.key["rows"])
    wrong = len(words) - len(named & wanted)
    return max(0.0, (len(named & wanted) - wrong) / len(wanted))


@env.solution
async def solve(agent: Agent, task: Task) -> None:
    await agent.say(", ".join(map(str, task.key["rows"])))
