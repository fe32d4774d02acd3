"""A repository with a wrong tax rule: repair it."""

import json
from random import Random

from sandlot import Agent, Environment, Evidence, Limits, Task, World

RIGHT = "def tax(cents):\n    return cents * {percent} // 100 if cents > {free} else {least}\n"
WRONG = "def tax(cents):\n    return cents\n"
DRIVER = """import json, sys
sys.path.insert(0, "/work")
from tax import tax
print(json.dumps([tax(case) for case in json.load(sys.stdin)]))
"""
GIT = "GIT_AUTHOR_DATE=@1700000000 GIT_COMMITTER_DATE=@1700000000 git -c user.name=dev -c user.email=dev@desk.test"

env = Environment("tax-rule", system="Repair /work/tax.py with `bash`, then say `done`.", image="host", limits=Limits(turns=8))


@env.tasks
def tasks(rng: Random):
    for number in range(6):
        rule = {"percent": rng.randrange(6, 30), "free": rng.randrange(1000, 9000), "least": rng.randrange(3, 90)}
        cases = [rng.randrange(0, 20000) for _ in range(8)] + [rule["free"], rule["free"] + 1]
        right = [cents * rule["percent"] // 100 if cents > rule["free"] else rule["least"] for cents in cases]
        prompt = "tax(cents) in /work/tax.py is wrong: above {free} it is {percent} percent, rounded down, else {least}.".format(
            **rule
        )
        key = {"code": RIGHT.format(**rule), "cases": cases, "right": right}
        yield Task(f"tax-{number}", prompt=prompt, data={"versions": [WRONG]}, key=key)


@env.setup
async def clone(world: World, task: Task) -> None:
    await world.exec("mkdir -p /work && git init -q /work")
    for version in task.data["versions"]:
        await world.write("/work/tax.py", version)
        await world.exec(f"cd /work && git add tax.py && {GIT} commit -q --amend -m start || {GIT} commit -q -m start")


@env.check(points=1)
async def rule_is_right(evidence: Evidence, task: Task) -> bool:
    async with evidence.grading_sandbox("/work/tax.py") as world:
        await world.write("/grade/driver.py", DRIVER)
        done = await world.exec("timeout 5 /usr/bin/python3 -I /grade/driver.py", stdin=json.dumps(task.key["cases"]))
    try:
        return json.loads(done.stdout) == task.key["right"]
    except (ValueError, RecursionError):
        return False


@env.solution
async def solve(agent: Agent, task: Task) -> None:
    await agent.call("bash", command=f"cat > /work/tax.py <<'END'\n{task.key['code']}END")
    await agent.say("done")
