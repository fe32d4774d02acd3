"""What stands in the task folders of the two formats, for a task that was imported: nothing is played for it."""

import os
import subprocess
import sys

import pytest

from sandlot import load
from sandlot.core.errors import ConfigError
from sandlot.core.task import Task
from sandlot.interop.harbor.layouts import HARBOR_LAYOUT, TERMINAL_BENCH_LAYOUT
from worlds.folders import write_environment


def imported(tmp_path, reward):
    """The files of an imported task."""
    data = tmp_path / "data"
    script = "run-tests.sh" if reward == "pytest" else "test.sh"
    files = {"environment/Containerfile": "FROM debian:trixie", f"tests/{script}": "true", "solution/solution.sh": "true"}
    for name, text in files.items():
        (data / name).parent.mkdir(parents=True, exist_ok=True)
        (data / name).write_text(text)
    return data, Task("one", prompt="Go.", key={"reward": reward, "solution_script": "solution.sh"})


def test_a_task_of_terminal_bench_is_written_back_in_either_format(tmp_path):
    data, task = imported(tmp_path, "pytest")
    for layout, files in (
        (TERMINAL_BENCH_LAYOUT, {"Dockerfile", "run-tests.sh", "solution.sh"}),
        (HARBOR_LAYOUT, {"environment/Dockerfile", "tests/run-tests.sh", "tests/test.sh", "solution/solve.sh"}),
    ):
        place = tmp_path / layout.kind
        layout.write_back(data, task, place)
        assert {path.relative_to(place).as_posix() for path in place.rglob("*") if path.is_file()} == files


def test_a_task_with_a_reward_file_is_not_for_terminal_bench(tmp_path):
    data, task = imported(tmp_path, "file")
    with pytest.raises(ConfigError, match="sandlot export harbor"):
        TERMINAL_BENCH_LAYOUT.write_back(data, task, tmp_path / "out")


def test_the_manifest_is_yaml_with_the_prompt_and_the_limits(tmp_path):
    yaml = pytest.importorskip("yaml")
    env = load(write_environment(tmp_path / "plain"))
    TERMINAL_BENCH_LAYOUT.write_manifest(env, Task("one", prompt='Say: "a" # \u00e9'), tmp_path)
    config = yaml.safe_load((tmp_path / "task.yaml").read_text())
    assert config["instruction"].endswith('Say: "a" # \u00e9\n')
    assert config["max_agent_timeout_sec"] == env.limits.time_s
    assert list(yaml.safe_load((tmp_path / "docker-compose.yaml").read_text())["services"]) == ["client"]


@pytest.mark.parametrize(
    ("grade", "code", "summary"),
    [("{reward}.write_text('1.0')", 0, True), ("{reward}.write_text('0.5')", 1, True), ("1 / 0", 3, False)],
)
def test_checks_that_crash_leave_no_summary(tmp_path, grade, code, summary):
    reward = tmp_path / "reward.txt"
    text = TERMINAL_BENCH_LAYOUT.tests["tests/test_outputs.py"].replace("/logs/verifier/reward.txt", str(reward))
    (tmp_path / "test_outputs.py").write_text(text)
    (tmp_path / "grade.py").write_text("from pathlib import Path\n" + grade.format(reward=f"Path({str(reward)!r})"))
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-rA",
        "-p",
        "no:cacheprovider",
        "--rootdir",
        tmp_path,
        tmp_path / "test_outputs.py",
    ]
    plain = os.environ | {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}  # as in the image, which has no plug-ins
    done = subprocess.run(command, cwd=tmp_path, env=plain, capture_output=True, text=True, check=False)
    assert (done.returncode, "short test summary info" in done.stdout) == (code, summary), done.stdout
