"""Runs of many thousand rollouts come to their end by themselves."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

NUM_ROLLOUTS = 16_500
"""Two logs are full at 8,192, and the third at the end."""
SANDLOT = Path(sys.executable).with_name("sandlot")
SOURCE = """
from sandlot import Environment, Task

env = Environment("echo")


@env.tasks
def tasks(rng):
    for number in range(500):
        yield Task(f"echo-{number}", prompt=f"Say {number}.", key={"said": str(number)})


@env.check(points=1)
def said(evidence, task):
    return evidence.answer.strip() == task.key["said"]


@env.solution
async def solve(agent, task):
    await agent.say(task.key["said"])
"""


@pytest.mark.system
@pytest.mark.timeout(300)
def test_sixteen_thousand_rollouts_run_to_their_end_and_every_one_is_scored(tmp_path):
    """Three logs are sealed while checks run in worker threads, in a process that has not imported numpy before."""
    (tmp_path / "echo.py").write_text(SOURCE)
    argv = [SANDLOT, "run", "echo.py", "--model", "scripted:golden", "--rollouts", str(NUM_ROLLOUTS), "--json"]
    done = subprocess.run(argv, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    summary = json.loads(done.stdout.splitlines()[-1])
    assert (summary["verdict"], summary["scored"], summary["score"]["mean"]) == ("complete", NUM_ROLLOUTS, 1.0)
