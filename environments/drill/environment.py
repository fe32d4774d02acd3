"""Drill: small chores over a few lines of text, for small models.

Every chore can be done in two ways: read the file and type the result, or let a shell command make it. Both are right when the
result is, and golden solutions take one or the other. Typing goes wrong more often, so a model that learns has somewhere to go.
"""

from random import Random

from sandlot import Agent, Environment, Evidence, Limits, Task, World

from .chores import SKILLS, Chore

EACH = 120
"""Tasks of every skill; as many again in pairs for every four of them."""
READING = 0.5
"""Share of chores whose golden solution reads and types instead of letting a command do the work."""

env = Environment(
    "drill",
    description="Small file chores at a shell: copy, pick, count, compare, sort, replace.",
    system="You are at a shell. Do the chore with `bash`, then say Done.",
    image="host",
    seed=5,
    limits=Limits(turns=8, tokens=400, tool_s=10),
)


@env.tasks
def tasks(rng: Random):
    for skill, make in SKILLS.items():
        for number in range(1, EACH + 1):
            yield one_task(f"{skill}-{number:03}", [make(rng)], (skill, "single"), rng)
    for number in range(1, EACH * len(SKILLS) // 4 + 1):
        first, second = rng.sample(list(SKILLS), 2)
        yield one_task(f"pair-{number:03}", pair_of(first, second, rng), (first, second, "pair"), rng)


def one_task(name: str, chores: list[Chore], tags: tuple[str, ...], rng: Random) -> Task:
    return Task(
        name,
        prompt=" Then: ".join(chore.asked for chore in chores),
        data={"files": {chore.source: chore.text for chore in chores}},
        key={
            "results": {chore.target: chore.result for chore in chores},
            "steps": [
                step for chore in chores for step in (chore.by_reading() if rng.random() < READING else chore.by_command())
            ],
        },
        tags=tags,
    )


def pair_of(first: str, second: str, rng: Random) -> list[Chore]:
    """Two chores that share no file."""
    one = SKILLS[first](rng)
    while True:
        other = SKILLS[second](rng)
        if {one.source, one.target}.isdisjoint({other.source, other.target}):
            return [one, other]


@env.setup
async def put_files(world: World, task: Task) -> None:
    for path, text in task.data["files"].items():
        await world.write(path, text)


@env.check(points=4)
def lines_are_right(evidence: Evidence, task: Task) -> tuple[float, str]:
    """The share of wanted lines that stand where they should; a file with too many or too few lines has none."""
    shares = {path: share_right(found(evidence, path), wanted) for path, wanted in task.key["results"].items()}
    return sum(shares.values()) / len(shares), ", ".join(f"{path}: {share:.0%}" for path, share in shares.items())


@env.check(points=6)
def results_are_right(evidence: Evidence, task: Task) -> tuple[float, str]:
    """The share of results that are right in every line."""
    right = [path for path, wanted in task.key["results"].items() if found(evidence, path) == wanted]
    return len(right) / len(task.key["results"]), ", ".join(right) or "none"


@env.check(points=-4)
def files_were_spoiled(evidence: Evidence, task: Task) -> tuple[bool, str]:
    """A file that was there is changed or gone."""
    spoiled = [path for path, text in task.data["files"].items() if found(evidence, path) != text.splitlines()]
    return bool(spoiled), ", ".join(spoiled) or "none"


def found(evidence: Evidence, path: str) -> list[str]:
    """The lines of a file without blanks at their ends; none if it is not there or is not text."""
    if not evidence.exists(path):
        return []
    text = evidence.read(path).decode(errors="replace")
    return [line.strip() for line in text.strip().splitlines()]


def share_right(lines: list[str], wanted: list[str]) -> float:
    if len(lines) != len(wanted):
        return 0.0
    return sum(line == want for line, want in zip(lines, wanted, strict=True)) / len(wanted)


@env.solution
async def solve(agent: Agent, task: Task) -> None:
    for command in task.key["steps"]:
        await agent.call("bash", command=command)
    await agent.say("Done.")
