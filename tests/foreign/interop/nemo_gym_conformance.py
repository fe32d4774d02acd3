"""Resources servers of NeMo Gym, asked by its own way and by ours with the same answers: `make test-interop KIND=nemo_gym`.

`NEMO_GYM_PYTHON` names the Python that has the package. The rows are those that the package ships.
"""

import json
import os
import subprocess
from pathlib import Path

import pytest

import sandlot
from sandlot.env.importing import import_environment

PYTHON = os.environ["NEMO_GYM_PYTHON"]
HERE = Path(__file__).parent
SERVERS = next(Path(PYTHON).parent.parent.glob("lib/python3*/site-packages/resources_servers"))


def _workplace(row):
    return [{"name": call["name"], "arguments": json.loads(call["arguments"])} for call in row["ground_truth"]], "Done."


def _letter(row):
    return [], f"The answer is \\boxed{{{row['expected_answer']}}}"


def _counter(row):
    return [{"name": "increment_counter", "arguments": {"count": row["expected_count"] - row["initial_count"]}}], "Done."


def _functions(row):
    return row["expected_answers"], "Done."


RIGHT = {"workplace_assistant": _workplace, "mcqa": _letter, "example_session_state_mgmt": _counter, "xlam_fc": _functions}


def _theirs(name, answers):
    done = subprocess.run(
        [PYTHON, str(HERE / "nemo_gym_rewards.py"), name], input=json.dumps(answers), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout.splitlines()[-1])


def _ours(env, answers, runs):
    async def solve(agent, task):
        answer = answers[task.data["row"]]
        for call in answer["calls"]:
            await agent.call(call["name"], **call["arguments"])
        await agent.say(answer["text"])

    env.marked.solution = solve
    run = sandlot.run(env, "scripted:golden", runs=runs)
    return [run.trace(task.id).reward for task in sandlot.tasks_of(env)]


@pytest.mark.parametrize("name", RIGHT)
def test_rewards_are_equal(name, tmp_path):
    report = import_environment("nemo-gym", f"{SERVERS / name}?python={PYTHON}", tmp_path / "env")
    assert len(report.tasks) + len(report.left_out) == 5
    rows = [json.loads(line) for line in (tmp_path / "env" / "data" / "rows.jsonl").read_text().splitlines()]
    right = [dict(zip(("calls", "text"), RIGHT[name](row), strict=True)) | {"row": row} for row in rows]
    nothing = [{"row": row, "calls": [], "text": "I cannot do that."} for row in rows]
    less = [answer | {"calls": answer["calls"][:-1], "text": "\\boxed{Z}"} for answer in right]
    theirs = _theirs(name, [*right, *nothing, *less])
    ours = []
    for number, answers in enumerate((right, nothing, less)):
        ours += _ours(sandlot.load(tmp_path / "env"), answers, tmp_path / f"runs{number}")
    assert ours == theirs
    assert set(theirs[: len(rows)]) == {1.0}
