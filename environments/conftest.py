"""What the environments' own tests share: play every task with an agent written as a function, and look at the scores."""

import os
import subprocess
import sys
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from sandlot import Agent, Environment, Scored, Task, run

Play = Callable[..., dict[str, Any]]


@pytest.fixture
def play(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Play:
    """`play(env)` plays the golden solution, `play(env, agent)` another; a rollout that was not scored fails the test."""

    def play(
        env: Environment,
        agent: Callable[[Agent, Task], Awaitable[None]] | None = None,
        tasks: Sequence[str] = (),
        at_once: int = 64,
    ) -> dict[str, Any]:
        if agent is not None:
            monkeypatch.setattr(env.marked, "solution", agent)
        scores = {}
        for trace in run(env, "scripted:golden", tasks=tuple(tasks), runs=tmp_path, at_once=at_once):
            assert isinstance(trace.outcome, Scored), (trace.task, trace.outcome)
            scores[trace.task] = trace.outcome.score
        return scores

    return play


@pytest.fixture
def tasks_in_a_fresh_process() -> Callable[[Path, str], str]:
    """The digest of an environment's tasks, made by a Python of its own with this hash seed."""
    code = """
import hashlib, sys, msgspec, sandlot
print(hashlib.sha256(msgspec.json.encode(sandlot.tasks_of(sandlot.load(sys.argv[1])))).hexdigest())
"""

    def digest_of(folder: Path, hash_seed: str) -> str:
        command = [sys.executable, "-c", code, str(folder)]
        environ = os.environ | {"PYTHONHASHSEED": hash_seed}
        done = subprocess.run(command, env=environ, capture_output=True, text=True, check=True)  # noqa: S603 - our own code
        return done.stdout

    return digest_of
