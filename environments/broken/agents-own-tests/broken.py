"""A one-file package with a bug, and its tests: make it right."""

import json
from random import Random

from sandlot import Agent, Environment, Evidence, Limits, Task, World

WRONG = "def price(cents, percent):\n    return cents - percent\n"
RIGHT = "def price(cents, percent):\n    return cents - cents * percent // 100 + {fee}\n"
TEST = """import unittest
from shop import price

class Prices(unittest.TestCase):
    def test_reduced(self):
        self.assertEqual(price({cents}, {percent}), {value})
"""

env = Environment(
    "shop", system="Repair the package in /work with `bash`, then say `done`.", image="host", limits=Limits(turns=8)
)


@env.tasks
def tasks(rng: Random):
    for number in range(6):
        fee = rng.randrange(20, 90)
        cases = [[rng.randrange(50, 400) * 100, rng.randrange(5, 60)] for _ in range(6)]
        right = [cents - cents * percent // 100 + fee for cents, percent in cases]
        test = TEST.format(cents=cases[0][0], percent=cases[0][1], value=right[0])
        prompt = f"price(cents, percent) in /work/shop.py must take off that many percent, rounded down, and add a fee of {fee}."
        key = {"code": RIGHT.format(fee=fee), "cases": cases, "right": right}
        yield Task(f"price-{number}", prompt=prompt, data={"test": test}, key=key)


@env.setup
async def unpack(world: World, task: Task) -> None:
    await world.write("/work/shop.py", WRONG)
    await world.write("/work/test_shop.py", task.data["test"])


@env.check(points=1)
async def package_works(evidence: Evidence, task: Task) -> bool:
    async with evidence.grading_sandbox(*evidence.list("/work")) as world:
        done = await world.exec("timeout 10 /usr/bin/python3 -m unittest -q", cwd="/work")
    return done.code == 0


@env.solution
async def solve(agent: Agent, task: Task) -> None:
    await agent.call("bash", command=f"cat > /work/shop.py <<'END'\n{task.key['code']}END")
    await agent.say("done")
