"""Repo repair: a small Python package with one planted bug; find it and fix it.

The visible tests show one symptom and are the agent's to change as it likes: they are not what counts. Hidden cases with other
inputs run against the package's own files in a sandbox of their own, and what they leave is compared out here with values that
were never in there. The exit code, the output and the opinion of the code under test play no part.
"""

import json
from functools import cache
from itertools import zip_longest
from pathlib import Path
from random import Random
from typing import Any

from sandlot import Agent, Environment, Evidence, Limits, Task, World

from .building import built, sources
from .casebook import CASES
from .catalogue import PLANTS, Plant
from .driver import observed
from .visible import prompt_of, test_file

ROOT = "/work/repo"
DRIVER = (Path(__file__).parent / "driver.py").read_text(encoding="utf-8")
WRONG_CASES, FINE_CASES = 6, 10
CPU_S, WALL_S = 3, 40

env = Environment(
    "repo-repair",
    description="Small Python repositories with a planted bug each; hidden tests run out of band.",
    system="You repair Python repositories with `bash`. Change what is needed in the package, and nothing that works.",
    image="host",
    seed=5,
    limits=Limits(turns=30, tool_s=30),
)


@env.tasks
def tasks(rng: Random):
    numbers: dict[str, int] = {}
    for plant in PLANTS:
        numbers[plant.package] = numbers.get(plant.package, 0) + 1
        yield make_task(rng.getrandbits(64), f"{plant.package}-{numbers[plant.package]}", plant)


@cache
def make_task(seed: int, name: str, plant: Plant) -> Task:
    right = sources(plant.package)
    wrong = right | {plant.module: plant.planted(right[plant.module])}
    spoiled = right if plant.kind == "leak" else wrong  # a leak shows only where few files may be open; no need to leak here
    broken, fine = sorted_cases(Random(seed), plant, built(plant.package, right), built(plant.package, spoiled))
    shown, hidden = broken[0], broken[1:]
    return Task(
        name,
        prompt=prompt_of(plant.package, shown),
        data={
            "files": {f"{plant.package}/{module}.py": text for module, text in wrong.items()}
            | {"tests/__init__.py": "", f"tests/test_{plant.package}.py": test_file(plant.package, [shown, *fine[::3]])}
        },
        key={
            "wrong": [[case["module"], case["code"], case["value"]] for case in hidden],
            "fine": [[case["module"], case["code"], case["value"]] for case in fine],
            "fixed": {f"{plant.package}/{plant.module}.py": right[plant.module]},
        },
        tags=(plant.package, plant.kind),
    )


def sorted_cases(rng: Random, plant: Plant, right: dict, wrong: dict) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Cases that the bug spoils, and cases all over the package that it does not."""
    everything = [(place, name) for place, cases in CASES.items() if place.startswith(plant.package) for name in cases]
    about = [(place, name) for place, name in everything if name in plant.about]
    broken: dict[str, dict[str, Any]] = {}
    fine: dict[str, dict[str, Any]] = {}
    for turn in range(300):
        place, name = about[turn % len(about)] if turn % 3 else rng.choice(everything)
        module = place.partition("/")[2]
        code = CASES[place][name](rng)
        compiled = compile(code, name, "exec")
        value, spoilt = (observed(modules[module], compiled) for modules in (right, wrong))
        case = {"module": f"{plant.package}.{module}", "code": code, "value": value, "name": name}
        if plant.kind == "leak" and name == "Reader":
            spoilt = ["raises", "OSError"]
        if value != spoilt and not raised(value):
            broken.setdefault(code, case)
        elif value == spoilt and sum(each["name"] == name for each in fine.values()) < 2 and len(fine) < FINE_CASES:
            fine.setdefault(code, case)
        if len(broken) > WRONG_CASES and len(fine) >= 6:
            break
    if len(broken) < 3:
        raise ValueError(f"{plant.place} {plant.kind}: only {len(broken)} cases come out wrong")
    return list(broken.values())[: WRONG_CASES + 1], list(fine.values())


def raised(value: Any) -> bool:
    return isinstance(value, list) and value[0] == "raises"


@env.setup
async def put_repository(world: World, task: Task) -> None:
    for path, text in task.data["files"].items():
        await world.write(f"{ROOT}/{path}", text)


@env.check(points=7)
async def bug_is_fixed(evidence: Evidence, task: Task) -> tuple[float, str]:
    """The share of spoiled cases that come out right now; nothing if anything else broke on the way."""
    wrong, fine = task.key["wrong"], task.key["fine"]
    right = await outcomes(evidence, task.tags[0], wrong + fine)
    if not all(right[len(wrong) :]):
        return 0.0, f"{right[len(wrong) :].count(False)} of {len(fine)} cases that were fine are broken"
    return sum(right[: len(wrong)]) / len(wrong), f"{sum(right[: len(wrong)])} of {len(wrong)} spoiled cases come out right"


@env.check(points=3, requires=("bug_is_fixed",))
def fix_is_whole(evidence: Evidence) -> bool:
    """A bug that is half fixed is still there."""
    return True


async def outcomes(evidence: Evidence, package: str, cases: list[list[Any]]) -> list[bool]:
    """For each case, whether it left exactly the expected value. Only the package's Python files are taken along.

    A case that left nothing, because the code under test ended its process or never came back, is not right.
    """
    files = [path for path in evidence.list(f"{ROOT}/{package}") if path.endswith(".py")]
    if not files:
        return [False] * len(cases)
    given = {"root": ROOT, "cpu_s": CPU_S, "wall_s": WALL_S, "cases": [case[:2] for case in cases]}
    async with evidence.grading_sandbox(*files) as world:
        await world.write("/grade/driver.py", DRIVER)
        done = await world.exec("exec /usr/bin/python3 -I -B /grade/driver.py", stdin=json.dumps(given))
    lines = done.stdout.splitlines()
    if len(lines) > len(cases):
        return [False] * len(cases)  # somebody wrote more than there is to say
    return [same(parsed(line), case[2]) for line, case in zip_longest(lines, cases, fillvalue="")]


def parsed(text: Any) -> Any:
    """JSON as data; a value that no case expects for anything else."""
    try:
        return json.loads(text)
    except (TypeError, ValueError, RecursionError):
        return {"not": "JSON"}


def same(left: Any, expected: Any) -> bool:
    return json.dumps(left) == json.dumps(expected)  # True is not 1


@env.solution
async def solve(agent: Agent, task: Task) -> None:
    for path, text in task.key["fixed"].items():
        await agent.call("bash", command=f"cat {ROOT}/{path}")
        await agent.call("bash", command=f"cat > {ROOT}/{path} <<'END_OF_FILE'\n{text}END_OF_FILE")
    await agent.say("The bug is fixed.")
