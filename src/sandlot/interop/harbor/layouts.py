"""Where Harbor and Terminal-Bench have the files of a task, and what they want to know about it."""

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import msgspec

from sandlot.core.errors import ConfigError
from sandlot.core.task import Task
from sandlot.core.types import Json
from sandlot.env.environment import Environment
from sandlot.interop.folder_writer import to_toml

_TEST = "#!/bin/bash\nmkdir -p /logs/verifier\nexec python3 /tests/grade.py\n"
_PYTEST = """#!/bin/bash
mkdir -p /logs/verifier
bash /tests/run-tests.sh
[ $? -eq 0 ] && echo 1 > /logs/verifier/reward.txt || echo 0 > /logs/verifier/reward.txt
"""
_RUN_TESTS = "#!/bin/bash\n/usr/bin/python3 -m pytest -rA -p no:cacheprovider $TEST_DIR/test_outputs.py\n"
_TEST_OUTPUTS = '''\
"""Runs the checks of this task, which `grade.py` beside it knows. Written by `sandlot export terminal-bench`."""

import subprocess
import sys
from pathlib import Path

import pytest

REWARD = Path("/logs/verifier/reward.txt")


def test_full_marks():
    REWARD.unlink(missing_ok=True)
    done = subprocess.run([sys.executable, Path(__file__).parent / "grade.py"], capture_output=True, text=True)
    if done.returncode != 0 or not REWARD.is_file():
        # No summary of tests follows, so that this is an error of the tests and no result.
        pytest.exit(f"the checks failed to run: {done.stderr[-2000:]}", returncode=3)
    assert float(REWARD.read_text()) == 1.0
'''
_COMPOSE = """\
services:
  client:
    build:
      dockerfile: Dockerfile
    image: ${T_BENCH_TASK_DOCKER_CLIENT_IMAGE_NAME}
    container_name: ${T_BENCH_TASK_DOCKER_CLIENT_CONTAINER_NAME}
    command: ["sh", "-c", "sleep infinity"]
    environment:
      - TEST_DIR=${T_BENCH_TEST_DIR}
    volumes:
      - ${T_BENCH_TASK_LOGS_PATH}:${T_BENCH_CONTAINER_LOGS_PATH}
      - ${T_BENCH_TASK_AGENT_LOGS_PATH}:${T_BENCH_CONTAINER_AGENT_LOGS_PATH}
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskLayout:
    """One of the two formats."""

    kind: str
    context: str
    """The folder with the Dockerfile."""
    solution: str
    """The script that solves the task."""
    tests: dict[str, str]
    """The files that run `tests/grade.py`."""
    packages: tuple[str, ...]
    """What they need, and the format's own runner: packages of Debian."""
    asks: str
    """A command that succeeds where they are installed."""
    write_manifest: Callable[[Environment, Task, Path], None]
    write_back: Callable[[Path, Task, Path], None]
    """Writes a task that came from a task folder, with its own files."""
    notes: tuple[str, ...] = ()


def _prompt(env: Environment, task: Task) -> str:
    system = f"{env.system}\n\n" if env.system else ""
    return f"{system}{task.prompt}\n"


def _write_harbor(env: Environment, task: Task, place: Path) -> None:
    limits = env.limits.but(task.limits)
    (place / "instruction.md").write_text(_prompt(env, task))
    config = {
        "version": "1.0",
        "metadata": {"tags": list(task.tags), "origin": f"sandlot environment {env.name}, task {task.id}"},
        "verifier": {"timeout_sec": float(task.key.get("tests_s", limits.grade_s))},
        "agent": {"timeout_sec": float(limits.time_s)},
        "environment": {
            "network_mode": "no-network",
            "build_timeout_sec": 1200.0,
            "cpus": 1,
            "memory_mb": 2048,
            "storage_mb": 4096,
        },
    }
    (place / "task.toml").write_text(to_toml(config))


def _write_terminal_bench(env: Environment, task: Task, place: Path) -> None:
    limits = env.limits.but(task.limits)
    config: Json = {
        "instruction": _prompt(env, task),
        "author_name": f"sandlot environment {env.name}",
        "author_email": "unknown",
        "difficulty": "unknown",
        "category": "unknown",
        "tags": list(task.tags),
        "parser_name": "pytest",
        "max_agent_timeout_sec": float(limits.time_s),
        "max_test_timeout_sec": float(task.key.get("tests_s", limits.grade_s)),
        "run_tests_in_same_shell": False,
    }
    # Values in JSON are YAML too.
    lines = [f"{name}: {msgspec.json.encode(value).decode()}\n" for name, value in config.items()]
    (place / "task.yaml").write_text("".join(lines))
    (place / "docker-compose.yaml").write_text(_COMPOSE)


def _require_tests(data: Path) -> None:
    if not (data / "tests").is_dir():
        raise ConfigError(f"there is no folder `{data / 'tests'}`")


def _harbor_back(data: Path, task: Task, place: Path) -> None:
    _require_tests(data)
    place.mkdir()
    for name in ("environment", "tests", "solution"):
        if (data / name).is_dir():
            shutil.copytree(data / name, place / name)
    (place / "environment" / "Containerfile").rename(place / "environment" / "Dockerfile")
    if task.key["reward"] == "pytest":
        (place / "tests" / "test.sh").write_text(_PYTEST)
        if (place / "solution").is_dir():
            (place / "solution" / task.key["solution_script"]).rename(place / "solution" / "solve.sh")


def _terminal_bench_back(data: Path, task: Task, place: Path) -> None:
    _require_tests(data)
    if task.key["reward"] != "pytest":
        raise ConfigError("its tests write a reward file, which Terminal-Bench does not read; use `sandlot export harbor`")
    shutil.copytree(data / "environment", place)
    (place / "Containerfile").rename(place / "Dockerfile")
    shutil.copytree(data / "tests", place / "tests")
    (place / "tests" / "run-tests.sh").rename(place / "run-tests.sh")
    if (data / "solution").is_dir():
        shutil.copyfile(data / "solution" / task.key["solution_script"], place / "solution.sh")


HARBOR_LAYOUT = TaskLayout(
    kind="harbor",
    context="environment",
    solution="solution/solve.sh",
    tests={"tests/test.sh": _TEST},
    packages=("python3",),
    asks="command -v python3",
    write_manifest=_write_harbor,
    write_back=_harbor_back,
)
TERMINAL_BENCH_LAYOUT = TaskLayout(
    kind="terminal-bench",
    context=".",
    solution="solution.sh",
    tests={"run-tests.sh": _RUN_TESTS, "tests/test_outputs.py": _TEST_OUTPUTS},
    packages=("asciinema", "python3", "python3-pytest", "tmux"),
    asks="dpkg -s asciinema python3-pytest tmux",
    write_manifest=_write_terminal_bench,
    write_back=_terminal_bench_back,
    notes=("a score below full marks is none in Terminal-Bench: its tests pass or fail",),
)
