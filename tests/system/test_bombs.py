"""Fork bombs in company: agents that leave processes which fork without end, in all rollouts of a run at once."""

import json
import os
import subprocess
import sys

import pytest

pytestmark = pytest.mark.system

ENVIRONMENT = """
from sandlot import Environment, Limits, Task

env = Environment("left", image="host", state=dict, limits=Limits(setup_s=20.0))

@env.tasks
def tasks(rng):
    yield Task("one", prompt="Write 42 to /answer.")

@env.check(points=1)
def right(evidence):
    return evidence.read_text("/answer").strip() == "42"

@env.finish
async def look(world, task):
    world.state["seen"] = (await world.exec("cat /answer")).stdout

@env.solution
async def solve(agent, task):
    await agent.call("bash", command={command!r})
    await agent.say("done")
"""

BOMB = """
import os, time
end = time.time() + 60
while time.time() < end:
    try:
        os.fork()
    except OSError:
        pass
"""

LEFT = f"echo 42 > /answer; setsid python3 -c '{BOMB}' >/dev/null 2>&1 & sleep 1"


@pytest.mark.timeout(300)
def test_twelve_bombs_at_once_are_all_graded(tmp_path):
    """Each fills the quota of 512 processes. Before, their processes outlived the time for gathering, and the run was stopped.

    `@env.finish` looks into the sandbox while they live. If it overruns, that neither costs the score nor stops the run.
    """
    (tmp_path / "left.py").write_text(ENVIRONMENT.format(command=LEFT))
    flags = ["--model", "scripted:golden", "--group", "24", "--at-once", "12", "--json"]
    command = [sys.executable, "-m", "sandlot", "run", "left.py", *flags]
    done = subprocess.run(command, cwd=tmp_path, env=os.environ, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    said = json.loads(done.stdout)
    assert (said["scored"], said["failed"]["sandbox"], said["score"]["mean"]) == (24, 0, 1.0)
