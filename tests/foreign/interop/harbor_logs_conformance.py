"""Jobs that Harbor itself ran and wrote, read without it: `make test-interop KIND=harbor`."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from sandlot.analysis.health.health import quick_health
from sandlot.core.trace import Failed
from sandlot.interop.logged_runs import import_run

HARBOR = os.environ["HARBOR_PYTHON"]
HERE = Path(__file__).parent
TASKS = {
    "solved": ("right", 'grep -q right "$ROOT/answer.txt" && echo 1 > "$ROOT/logs/verifier/reward.txt"'),
    "half": ("half", 'echo 0.5 > "$ROOT/logs/verifier/reward.txt"'),
    "several": ("several", 'echo \'{"reward": 1, "style": 0.25}\' > "$ROOT/logs/verifier/reward.json"'),
    "late": ("sleep", 'echo 0 > "$ROOT/logs/verifier/reward.txt"'),
    "broken": ("raise", 'echo 0 > "$ROOT/logs/verifier/reward.txt"'),
    "ungraded": ("nothing", "true"),
    "garbage": ("garbage", 'echo many > "$ROOT/logs/verifier/reward.txt"'),
}
CONVERT = """
import sys
from pathlib import Path
from harbor.agents.installed.mini_swe_agent import convert_and_save_trajectory
convert_and_save_trajectory(Path(sys.argv[1]), Path(sys.argv[2]), "session")
"""


@pytest.fixture(scope="module")
def job(tmp_path_factory):
    folder = tmp_path_factory.mktemp("harbor")
    for name, (word, tests) in TASKS.items():
        task = folder / "tasks" / name
        for sub in ("environment", "tests"):
            (task / sub).mkdir(parents=True)
        (task / "environment" / "Dockerfile").write_text("FROM scratch\n")
        (task / "instruction.md").write_text(f"Write into answer.txt the word {word}.\n")
        (task / "tests" / "test.sh").write_text(f"#!/bin/bash\necho tests of {name}\n{tests}\n")
        (task / "task.toml").write_text('version = "1.0"\n[agent]\ntimeout_sec = 5.0\n[verifier]\ntimeout_sec = 20.0\n')
    command = [HARBOR, "-m", "harbor.cli.main", "run", "-p", "tasks", "-k", "2", "-n", "2", "-o", "jobs", "-y"]
    parts = ["--agent-import-path", "harbor_player:Player", "--environment-import-path", "harbor_player:FolderEnvironment"]
    settings = {"PYTHONPATH": str(HERE), "LITELLM_LOCAL_MODEL_COST_MAP": "True"}
    done = subprocess.run(
        [*command, *parts], cwd=folder, env={**os.environ, **settings}, capture_output=True, text=True, check=False
    )
    jobs = list((folder / "jobs").glob("*/result.json"))
    assert jobs, done.stdout[-4000:] + done.stderr[-4000:]
    return jobs[0].parent


def test_every_trial_is_a_rollout_with_harbors_reward_or_a_failure(job, tmp_path):
    run = import_run("harbor-log", str(job), tmp_path / "run")
    assert (run.verdict, len(run)) == ("complete", 2 * len(TASKS))
    by_trial = {trace.evidence.state["trial"]: trace for trace in run}
    for path in job.glob("*/result.json"):
        theirs = json.loads(path.read_text())
        trace = by_trial[theirs["trial_name"]]
        rewards = (theirs["verifier_result"] or {}).get("rewards") or {}
        raised = theirs["exception_info"] and theirs["exception_info"]["exception_type"]
        assert trace.task == theirs["task_name"].rpartition("/")[2]
        if raised in {None, "AgentTimeoutError"} and rewards:
            assert trace.reward == rewards["reward"]
        else:
            assert isinstance(trace.outcome, Failed), (trace.task, raised, rewards)
            assert trace.reward is None
    found = {row.task: (row.end, row.score, row.side, row.kind) for row in run.rows}
    assert found == {
        "solved": ("done", 1.0, None, None),
        "half": ("done", 0.5, None, None),
        "several": ("done", 1.0, None, None),
        "late": ("time_limit", 0.0, None, None),
        "broken": ("cut", None, "harness", "crash"),
        "ungraded": ("cut", None, "grader", "no_score"),
        "garbage": ("cut", None, "grader", "bad_value"),
    }
    notes = json.loads((run.path / "import.json").read_text())["notes"]
    assert any("Harbor's mean counts each as 0" in note for note in notes)
    assert any("AgentTimeoutError 2" in note for note in notes)
    sys.stdout.write(f"{len(run)} trials: {found}\n")


def test_the_conversation_and_its_tokens_are_the_trajectorys(job, tmp_path):
    run = import_run("harbor-log", str(job), tmp_path / "run")
    trace = run.trace("solved", 0)
    assert [node.message.role.value for node in trace.path()] == ["user", "assistant", "tool", "assistant"]
    assert trace.nodes[1].message.calls[0].arguments == {"command": "echo right > answer.txt"}
    assert trace.nodes[2].message.results[0].text == "written\n"
    assert (trace.answer, trace.trainable, trace.usage.prompt_tokens) == ("Done.", True, 30)
    assert [node.tokens.ids_array().tolist() for node in trace.turns()] == [[3, 4, 5], [7, 8]]
    assert "tests of solved" in trace.outcome.score.checks[0].evidence


def test_the_commands_read_such_a_run(job, tmp_path):
    run = import_run("harbor-log", str(job), tmp_path / "runs" / "harbor")
    assert quick_health(run)
    sandlot = Path(sys.executable).parent / "sandlot"
    for command in (
        ["show", str(run.path)],
        ["show", f"{run.path}/late/0"],
        ["triage", str(run.path)],
        ["health", str(run.path)],
    ):
        done = subprocess.run([sandlot, *command], capture_output=True, text=True, check=False)
        assert done.returncode in {0, 1}, (command, done.stderr)
        assert "Traceback" not in done.stderr


def test_one_trial_and_one_trajectory_can_be_read_alone(job, tmp_path):
    trial = next(job.glob("solved__*"))
    assert [row.score for row in import_run("harbor-log", str(trial), tmp_path / "trial").rows] == [1.0]
    alone = import_run("harbor-log", str(trial / "agent" / "trajectory.json"), tmp_path / "alone")
    assert [(row.score, row.kind, row.turns) for row in alone.rows] == [(None, "no_score", 2)]


def test_a_trajectory_that_harbor_converted_from_another_agent_is_read(tmp_path):
    """Harbor's converter for mini-swe-agent writes observations in its own way."""
    call = {"id": "call_1", "type": "function", "function": {"name": "bash", "arguments": '{"command": "ls"}'}}
    usage = {"extra": {"response": {"usage": {"prompt_tokens": 12, "completion_tokens": 4}}}}
    recorded = {
        "info": {"config": {"model": {"model_name": "openai/x"}}, "model_stats": {"instance_cost": 0.01}, "mini_version": "2.0"},
        "messages": [
            {"role": "system", "content": "You are an agent."},
            {"role": "user", "content": "List the files."},
            {"role": "assistant", "content": "I look.", "tool_calls": [call], **usage},
            {"role": "tool", "tool_call_id": "call_1", "content": "a.txt"},
            {"role": "assistant", "content": "There is a.txt.", **usage},
        ],
        "trajectory_format": "mini-swe-agent-1.1",
    }
    (tmp_path / "mini.json").write_text(json.dumps(recorded))
    written = tmp_path / "trial" / "trajectory.json"
    written.parent.mkdir()
    subprocess.run([HARBOR, "-c", CONVERT, str(tmp_path / "mini.json"), str(written)], check=True, capture_output=True)
    (trace,) = import_run("harbor-log", str(written), tmp_path / "run")
    roles = [node.message.role.value for node in trace.path()]
    assert roles[:3] == ["system", "user", "assistant"]
    assert "a.txt" in "".join(part.text for node in trace.nodes[3:4] for part in node.message.parts)
    assert (trace.answer, trace.num_turns, trace.usage.completion_tokens) == ("There is a.txt.", 2, 8)
