"""What the environments' own tests share: play every task with an agent written as a function, and look at the scores."""

import hashlib
import os
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
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


_DIGESTS = """
import hashlib, os, sys, msgspec
from sandlot import Environment, load, tasks_of

for folder in iter(sys.stdin.readline, ""):
    if not (child := os.fork()):
        try:
            print(hashlib.sha256(msgspec.json.encode(tasks_of(load(folder.strip())))).hexdigest(), flush=True)
            os._exit(0)
        finally:
            os._exit(1)
    if os.waitpid(child, 0)[1]:
        print("it failed", flush=True)
"""


@pytest.fixture(scope="session")
def same_tasks_elsewhere() -> Iterator[Callable[[Path, Sequence[Task]], bool]]:
    """Whether a process with another hash seed makes the same tasks of an environment, byte for byte."""
    seed = "2" if os.environ.get("PYTHONHASHSEED") == "1" else "1"
    environ = os.environ | {"PYTHONHASHSEED": seed}
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, "-c", _DIGESTS], env=environ, stdin=pipe, stdout=pipe, text=True) as process:  # noqa: S603 - our own code

        def same(folder: Path, tasks: Sequence[Task]) -> bool:
            process.stdin.write(f"{folder}\n")
            process.stdin.flush()
            return process.stdout.readline().strip() == hashlib.sha256(msgspec.json.encode(tasks)).hexdigest()

        yield same
