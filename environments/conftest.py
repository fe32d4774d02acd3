"""What the environments' own tests share: play every task with an agent written as a function, and look at the scores."""

from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

import pytest

from sandlot import Agent, Environment, Scored, Task, run
from sandlot.rubric import Score

Play = Callable[..., dict[str, Score]]


@pytest.fixture
def play(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Play:
    """`play(env)` plays the golden solution, `play(env, agent)` another; a rollout that was not scored fails the test."""

    def play(
        env: Environment, agent: Callable[[Agent, Task], Awaitable[None]] | None = None, tasks: Sequence[str] = ()
    ) -> dict[str, Score]:
        if agent is not None:
            monkeypatch.setattr(env.parts, "solution", agent)
        scores = {}
        for trace in run(env, "scripted:golden", tasks=tuple(tasks), runs=tmp_path):
            assert isinstance(trace.outcome, Scored), (trace.task, trace.outcome)
            scores[trace.task] = trace.outcome.score
        return scores

    return play
