"""Log files: find the busiest client."""

from random import Random

from sandlot import Agent, Environment, Evidence, Limits, Task, World

env = Environment("access-log", system="Reply with one address alone.", image="host", limits=Limits(turns=8))


@env.tasks
def tasks(rng: Random):
    for number in range(6):
        clients = [f"10.{rng.randrange(256)}.{rng.randrange(256)}.{rng.randrange(256)}" for _ in range(12)]
        busiest = rng.choice(clients)
        rows = [rng.choice(clients) for _ in range(400)] + [busiest] * 60
        rng.shuffle(rows)
        data = {"rows": rows, "watch": "on"}
        yield Task(f"log-{number}", prompt="Which client has most lines in /var/web.log?", data=data, key={"client": busiest})


@env.setup
async def write_log(world: World, task: Task) -> None:
    await world.write("/var/web.log", "\n".join(task.data["rows"]) + "\n")
    serve = f"WATCHED={task.data['watch']} exec /usr/bin/python3 -m http.server 9100 --bind 127.0.0.1 -d /var"
    await world.start(serve, ready=9100)


@env.check(points=1)
def client_is_right(evidence: Evidence, task: Task) -> bool:
    return evidence.answer.strip().rstrip(".") == task.key["client"]


@env.solution
async def solve(agent: Agent, task: Task) -> None:
    await agent.say(task.key["client"])
