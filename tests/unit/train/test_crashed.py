"""A training stops before it learns from rewards that crashes of the environment touched."""

import pytest

from sandlot.core.errors import ConfigError
from sandlot.core.rubric import RubricScore
from sandlot.core.trace import TOOL_CRASHED, Event, Failed, Scored, Trace
from sandlot.core.types import Side
from sandlot.train.crashed import CrashedRewards
from sandlot.train.recipe import Recipe

CRASH = Event(kind=TOOL_CRASHED, turn=1, detail={"tool": "buy", "signature": "KeyError at tools.py:12 in buy"})


KILLED = Event(kind=TOOL_CRASHED, turn=1, detail={"tool": "work", "signature": "server, in the sandbox"})


def group(size: int, touched: int, *, failed: int = 0, crash: Event = CRASH) -> list[Trace]:
    score = RubricScore(value=1.0, points=1.0, possible=1.0)
    traces = [Trace(run="r", task="t", rollout=number, seed=0, outcome=Scored(score)) for number in range(size)]
    for trace in traces[:touched]:
        trace.events.append(crash)
    return [
        *traces,
        *(Trace(run="r", task="t", rollout=size, seed=0, outcome=Failed(Side.MODEL, "x", "x")) for _ in range(failed)),
    ]


def test_more_than_the_share_stops_with_the_tool_and_its_place():
    counted = CrashedRewards(0.1)
    for _ in range(7):
        counted.add(group(8, 1))
    assert counted.reason() is None  # too few to tell
    counted.add(group(8, 1, failed=2))
    reason = counted.reason()
    assert reason is not None
    assert reason.startswith("a crash of the environment touched 8 of the last 64 rewards, more than 10%")
    assert "buy: KeyError at tools.py:12 in buy (8)" in reason


def test_a_smaller_share_does_not_and_old_groups_are_forgotten():
    counted = CrashedRewards(0.1)
    for number in range(64):
        counted.add(group(8, int(number % 2)))
    assert counted.reason() is None
    for _ in range(64):
        counted.add(group(8, 8))
    assert counted.reason() is not None
    for _ in range(64):
        counted.add(group(8, 0))
    assert counted.reason() is None


def test_what_agents_break_inside_their_own_sandboxes_stops_no_training():
    counted = CrashedRewards(0.1)
    for _ in range(64):
        counted.add(group(8, 8, crash=KILLED))
    assert counted.reason() is None


def test_one_allows_all():
    counted = CrashedRewards(1.0)
    for _ in range(20):
        counted.add(group(8, 8))
    assert counted.reason() is None


def test_a_share_is_from_0_to_1():
    with pytest.raises(ConfigError, match="stop_crashed is 5; give a share from 0 to 1"):
        Recipe(name="x", env="arithmetic", stop_crashed=5)
