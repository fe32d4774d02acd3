"""A dial to be turned five times: the smallest environment with a tool and a state; a turn costs what the framework costs."""

from collections.abc import Iterator
from dataclasses import dataclass
from random import Random

from sandlot import Environment, Evidence, Limits, Task, World


@dataclass
class Dial:
    value: int = 0


env = Environment("dial", description="Turn a dial to five.", limits=Limits(turns=8), state=Dial)


@env.tasks
def tasks(_rng: Random) -> Iterator[Task]:
    for number in range(64):
        yield Task(id=f"dial-{number}", prompt="Turn the dial to five, one step at a time. How much is 2+3?")


@env.tool
async def turn(world: World, by: int) -> str:
    """Turn the dial and read it."""
    world.state.value += by
    return f"The dial shows {world.state.value}."


@env.check(points=1)
def dial_shows_five(evidence: Evidence, task: Task) -> bool:  # noqa: ARG001 - the shape of every check
    return evidence.state.value == 5 and evidence.answer.strip() == "5"
