"""Write a converter between two made-up units."""

import json
from random import Random

from sandlot import Agent, Environment, Evidence, Limits, Task

DRIVER = """import json, sys
sys.path.insert(0, "/work")
from convert import convert
print(json.dumps([convert(value) for value in json.load(sys.stdin)]))
"""

env = Environment("units", system="Write what is asked with `bash`, then say `done`.", image="host", limits=Limits(turns=8))


@env.tasks
def tasks(rng: Random):
    for number in range(6):
        factor, zero = rng.randrange(3, 40), rng.randrange(50, 400)
        values = [rng.randrange(-500, 500) for _ in range(8)]
        prompt = (
            f"Write /work/convert.py with a function convert(quills): whole quills to reams. A ream is {factor} quills, "
            f"reams are rounded down, and 0 reams are {zero} quills."
        )
        code = f"def convert(quills):\n    return (quills - {zero}) // {factor}\n"
        cases = [[value, (value - zero) // factor] for value in values]
        yield Task(f"unit-{number}", prompt=prompt, key={"code": code, "cases": cases})


@env.check(points=1)
async def converts(evidence: Evidence, task: Task) -> bool:
    async with evidence.grading_sandbox("/work/convert.py") as world:
        await world.write("/grade/driver.py", DRIVER)
        values = json.dumps([value for value, _ in task.key["cases"]])
        done = await world.exec("timeout 5 /usr/bin/python3 -I /grade/driver.py", stdin=values)
    try:
        return json.loads(done.stdout) == [expected for _, expected in task.key["cases"]]
    except (ValueError, RecursionError):
        return False


@env.solution
async def solve(agent: Agent, task: Task) -> None:
    await agent.call("bash", command=f"mkdir -p /work && cat > /work/convert.py <<'END'\n{task.key['code']}END")
    await agent.say("done")
