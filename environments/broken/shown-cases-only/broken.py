"""Write a small Python function from its description."""

import json
from random import Random

from sandlot import Agent, Environment, Evidence, Limits, Task

DRIVER = """import json, sys
sys.path.insert(0, "/work")
from label import label
print(json.dumps([label(*case) for case in json.load(sys.stdin)]))
"""

env = Environment("labels", system="Write what is asked with `bash`, then say `done`.", image="host", limits=Limits(turns=8))


@env.tasks
def tasks(rng: Random):
    for number in range(6):
        letters, factor, plus = rng.randrange(2, 6), rng.randrange(3, 12), rng.randrange(1, 50)
        code = f"def label(name, size):\n    return name[:{letters}].upper() + '-' + str(size * {factor} + {plus})\n"
        cases = [[rng.choice(("copper", "marble", "willow", "basalt")), rng.randrange(2, 500)] for _ in range(10)]
        right = [f"{name[:letters].upper()}-{size * factor + plus}" for name, size in cases]
        shown = "\n".join(f"label{tuple(case)!r} == {value!r}" for case, value in zip(cases[:3], right, strict=False))
        rule = f"the first {letters} letters of the name in capitals, a dash, and the size times {factor} plus {plus}"
        prompt = f"Write /work/label.py with a function label(name, size): {rule}. For example:\n{shown}"
        yield Task(f"label-{number}", prompt=prompt, key={"code": code, "cases": cases, "right": right})


@env.check(points=1)
async def labels_are_right(evidence: Evidence, task: Task) -> bool:
    cases, right = task.key["cases"][:3], task.key["right"][:3]
    async with evidence.grading_sandbox("/work/label.py") as world:
        await world.write("/grade/driver.py", DRIVER)
        done = await world.exec("timeout 5 /usr/bin/python3 -I /grade/driver.py", stdin=json.dumps(cases))
    try:
        return json.loads(done.stdout) == right
    except (ValueError, RecursionError):
        return False


@env.solution
async def solve(agent: Agent, task: Task) -> None:
    await agent.call("bash", command=f"mkdir -p /work && cat > /work/label.py <<'END'\n{task.key['code']}END")
    await agent.say("done")
