"""Scores of several agents: each seat is graded on its own words, and a full disk stops the run as with one agent."""

import msgspec
import pytest

from sandlot import Agent, Environment, Evidence, Limits, Run, Task, run, seat_trace
from sandlot.core.errors import ConfigError, ModelError, StoreError
from sandlot.core.seats import begin_seat
from sandlot.grade.view import transcript
from sandlot.model.policy.replay import _ReplayPolicy


def pair(solve) -> Environment:
    env = Environment("pair", seats=["a", "b"], limits=Limits(turns=2))

    @env.tasks
    def tasks(_rng):
        yield Task("one", prompt="Say `right`.")

    @env.check(points=1, seat="a")
    def a_is_right(evidence: Evidence, task: Task) -> bool:
        return evidence.answer == "right"

    @env.check(points=1, seat="b")
    def b_is_right(evidence: Evidence, task: Task) -> bool:
        return evidence.answer == "right"

    @env.tool
    async def store() -> str:
        """Store something."""
        raise StoreError("the disk is full")

    env.marked.solution = solve
    return env


def played(tmp_path) -> Run:
    async def solve(agent: Agent, task: Task) -> None:
        await agent.say("right" if agent.seat == "a" else "wrong")

    return run(pair(solve), "scripted:golden", runs=tmp_path)


def test_a_check_of_a_seat_gets_that_seats_answer(tmp_path):
    trace = played(tmp_path).trace("one")
    assert {name: record.score.value for name, record in trace.seats.items()} == {"a": 1.0, "b": 0.0}


def test_what_cannot_be_stored_stops_the_run(tmp_path):
    async def solve(agent: Agent, task: Task) -> None:
        await agent.call("store")

    with pytest.raises(StoreError, match="the disk is full"):
        run(pair(solve), "scripted:golden", runs=tmp_path)


def test_a_seat_without_a_score_does_not_get_the_whole_rollouts(tmp_path):
    trace = played(tmp_path).trace("one")
    trace.seats["a"] = msgspec.structs.replace(trace.seats["a"], score=None)
    with pytest.raises(ConfigError, match="has no scores of its seats; grade it again"):
        seat_trace(trace, "a")


async def test_a_seat_that_was_not_recorded_does_not_replay_the_others(tmp_path):
    trace = played(tmp_path).trace("one")
    with pytest.raises(ModelError, match="has no seat `c`; its seats: a, b"):
        await _ReplayPolicy(trace, None, None).turn(begin_seat(trace, "c"), 0, ())


def test_a_judge_does_not_read_a_turn_that_was_replaced(tmp_path):
    trace = played(tmp_path).trace("one")
    last = trace.seats["a"].nodes[-1]
    turn = next(at for at in trace.seats["a"].nodes if trace.nodes[at].is_turn)
    spoken = trace.nodes[turn]
    said = msgspec.structs.replace(
        spoken.message, parts=tuple(msgspec.structs.replace(part, text="instead") for part in spoken.message.parts)
    )
    again = trace.append(msgspec.structs.replace(spoken, message=said))
    trace.seats["a"] = msgspec.structs.replace(trace.seats["a"], nodes=(*trace.seats["a"].nodes, again))
    assert last < again
    assert '"text": "instead"' in transcript(trace)
    assert '"text": "right"' not in transcript(trace)
