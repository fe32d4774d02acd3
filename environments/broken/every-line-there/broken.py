"""A rota: write down who is on duty."""

from random import Random

from sandlot import Agent, Environment, Evidence, Task, ToolError, World

DAYS = ("monday", "tuesday", "wednesday")
NAMES = ("Ines", "Jonas", "Kemal")

env = Environment(
    "rota", system="Read /rota/wishes.txt and write /rota/duty.txt: for each day one line, `day: name`. Then say `done`."
)


@env.tasks
def tasks(rng: Random):
    for number in range(9):
        duty = {day: rng.choice(NAMES) for day in DAYS}
        wishes = [
            f"{name} can only come on {' and '.join(days)}." for name in NAMES if (days := [d for d in DAYS if duty[d] == name])
        ]
        rng.shuffle(wishes)
        prompt = f"Week {number + 20}: who is on duty?"
        yield Task(f"week-{number}", prompt=prompt, data={"wishes": "\n".join(wishes)}, key={"duty": duty})


@env.setup
async def put(world: World, task: Task) -> None:
    await world.write("/rota/wishes.txt", task.data["wishes"])


@env.tool
async def read_file(world: World, path: str) -> str:
    """Read a file."""
    if path not in await world.list("/rota"):
        raise ToolError(f"no file {path[:60]!r}")
    return (await world.read(path)).decode(errors="replace")


@env.tool
async def write_file(world: World, path: str, text: str) -> str:
    """Write /rota/duty.txt."""
    if path != "/rota/duty.txt":
        raise ToolError("only /rota/duty.txt can be written")
    await world.write(path, text)
    return f"Wrote {len(text)} characters."


@env.check(points=1)
def duty_is_right(evidence: Evidence, task: Task) -> bool:
    if not evidence.exists("/rota/duty.txt"):
        return False
    lines = {line.strip().casefold() for line in evidence.read_text("/rota/duty.txt").splitlines() if line.strip()}
    wanted = {f"{day}: {name}".casefold() for day, name in task.key["duty"].items()}
    return wanted <= lines


@env.solution
async def solve(agent: Agent, task: Task) -> None:
    await agent.call("read_file", path="/rota/wishes.txt")
    await agent.call(
        "write_file", path="/rota/duty.txt", text="\n".join(f"{day}: {name}" for day, name in task.key["duty"].items())
    )
    await agent.say("done")
