"""A service with a settings file that fails its self-test: mend the settings."""

import json
from random import Random

from sandlot import Agent, Environment, Evidence, Task, ToolError, World

PORTS, WORKERS = range(8000, 9000), range(4, 33)

env = Environment("self-test", system="Mend /app/settings.json until the self-test passes, then say `done`.")


@env.tasks
def tasks(rng: Random):
    for number in range(8):
        right = {"port": rng.choice(PORTS), "workers": rng.choice(WORKERS), "queue": f"jobs-{rng.randrange(100, 1000)}"}
        wrong = right | {"port": right["port"] + 1000, "workers": 0}
        prompt = f"The service must listen on {right['port']} with {right['workers']} workers; the queue is right as it is."
        yield Task(f"service-{number}", prompt=prompt, data={"wrong": wrong, "wanted": right}, key={"right": right})


@env.setup
async def install(world: World, task: Task) -> None:
    await world.write("/app/settings.json", json.dumps(task.data["wrong"]))


@env.tool
async def read_file(world: World, path: str) -> str:
    """The text of a file."""
    if path not in await world.list("/"):
        raise ToolError(f"no file {path!r}; there are {', '.join(await world.list('/'))}")
    return (await world.read(path)).decode()


@env.tool
async def write_file(world: World, path: str, text: str) -> str:
    """Write a file below /app or /out."""
    if not path.startswith(("/app/", "/out/")) or ".." in path or "\0" in path or path.endswith("/"):
        raise ToolError(f"{path!r} is not below /app or /out")
    await world.write(path, text)
    return f"Wrote {path}."


@env.tool
async def self_test(world: World) -> str:
    """Run the self-test; its report goes to /out/report.json."""
    there = parsed(await world.read("/app/settings.json"))
    failed = [name for name, value in world.task.data["wanted"].items() if there.get(name) != value]
    report = json.dumps({"failed": failed, "passed": len(world.task.data["wanted"]) - len(failed)})
    await world.write("/out/report.json", report)
    return report


def parsed(data: bytes) -> dict:
    try:
        value = json.loads(data)
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


@env.check(points=1)
def service_is_mended(evidence: Evidence, task: Task) -> bool:
    return parsed(evidence.read("/app/settings.json")) == task.key["right"]


@env.solution
async def solve(agent: Agent, task: Task) -> None:
    await agent.call("write_file", path="/app/settings.json", text=json.dumps(task.key["right"]))
    await agent.say("done")
