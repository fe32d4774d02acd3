"""The dial in a sandbox of its own: every turn runs a command there, and the evidence is a file."""

from collections.abc import Iterator
from random import Random

from sandlot import Environment, Evidence, Limits, Task, World

env = Environment(
    "boxed-dial", description="Turn a dial to five.", image="host", network="none", tools=[], limits=Limits(turns=8)
)


@env.tasks
def tasks(_rng: Random) -> Iterator[Task]:
    for number in range(64):
        yield Task(id=f"boxed-{number}", prompt="Turn the dial to five, one step at a time. How much is 2+3?")


@env.tool
async def turn(world: World, by: int) -> str:
    """Turn the dial and read it."""
    done = await world.exec(f"read n < /out/dial; echo $((n + {by})) > /out/dial; cat /out/dial")
    return f"The dial shows {done.stdout.strip()}."


@env.setup
async def put_dial(world: World, task: Task) -> None:  # noqa: ARG001 - the shape of every setup
    await world.write("/out/dial", b"0\n")


@env.check(points=1)
def dial_shows_five(evidence: Evidence, task: Task) -> bool:  # noqa: ARG001 - the shape of every check
    return evidence.read("/out/dial") == b"5\n" and evidence.answer.strip() == "5"
