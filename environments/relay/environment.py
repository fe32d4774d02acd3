"""Relay: two agents at one shell do a job in two halves, and neither sees the other's half.

`left` makes a file, `right` makes the result from that file. They take turns: who reads first and types later keeps the other
waiting for a file that is not there yet. Both are rewarded for the same thing, the files in the end.
"""

from random import Random

from sandlot import Agent, Environment, Evidence, Limits, Seat, Task, World

from .chores import FIRST, SECOND, WORDS, Half, file_names

EACH = 30
"""Tasks of every pair of halves."""

env = Environment(
    "relay",
    description="Two agents at one shell: one makes a file, the other makes the result from it.",
    system="You are at a shell. Do the chore with `bash`, then say Done.",
    image="host",
    seats=[Seat("left"), Seat("right")],
    order="in turn",
    shared="/data",
    limits=Limits(turns=4, tokens=200, tool_s=10),
)


@env.tasks
def tasks(rng: Random):
    for first in FIRST:
        for second in SECOND:
            for number in range(1, EACH + 1):
                yield one_task(f"{first}-{second}-{number:02}", FIRST[first], SECOND[second], rng)


def one_task(name: str, first: Half, second: Half, rng: Random) -> Task:
    lines = rng.sample(WORDS, rng.randint(3, 4))
    source, middle, target = file_names(rng)
    halfway = first.done(lines)
    return Task(
        name,
        data={
            "files": {source: "".join(f"{line}\n" for line in lines)},
            "left": first.asked(rng, source, middle),
            "right": second.asked(rng, middle, target),
        },
        key={
            "results": {middle: halfway, target: second.done(halfway)},
            "left": first.command(source, middle),
            "right": second.command(middle, target),
        },
        tags=(first.name, second.name),
    )


@env.setup
async def begin(world: World, task: Task) -> None:
    for path, text in task.data["files"].items():
        await world.write(path, text)
    for seat in ("left", "right"):
        world.tell(seat, task.data[seat])


@env.check(points=4)
def first_half_is_right(evidence: Evidence, task: Task) -> tuple[bool, str]:
    """The file between the two halves."""
    path, wanted = next(iter(task.key["results"].items()))
    return found(evidence, path) == wanted, path


@env.check(points=6)
def result_is_right(evidence: Evidence, task: Task) -> tuple[bool, str]:
    """The file that `right` makes."""
    path, wanted = list(task.key["results"].items())[-1]
    return found(evidence, path) == wanted, path


@env.check(points=-4)
def source_was_spoiled(evidence: Evidence, task: Task) -> tuple[bool, str]:
    """The file that was there is changed or gone."""
    spoiled = [path for path, text in task.data["files"].items() if found(evidence, path) != text.splitlines()]
    return bool(spoiled), ", ".join(spoiled) or "none"


def found(evidence: Evidence, path: str) -> list[str]:
    """The lines of a file without blanks at their ends; none if it is not there or is not text."""
    if not evidence.exists(path):
        return []
    return [line.strip() for line in evidence.read(path).decode(errors="replace").strip().splitlines()]


@env.solution
async def solve(agent: Agent, task: Task) -> None:
    await agent.call("bash", command=task.key[agent.seat])
    await agent.say("Done.")
