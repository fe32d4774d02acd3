"""Agents that act against their environment, in real runs, with sound ones beside them: all are graded.

Of at least 200 hostile plays none ends without a score, and no sound rollout beside them is lost.
"""

import json
import re
from collections.abc import Iterable
from typing import Any

import anyio
import pytest

from fakes.endpoint import FakeEndpoint, Request, completion, status
from sandlot import Environment, Run, Scored, run_async
from worlds.hostile_environments import (
    PLAYS,
    SOUND,
    app_environment,
    batches,
    history_environment,
    seat_environment,
    server_environment,
    shell_environment,
    sound_beside,
)
from worlds.hostile_plays import Play
from worlds.hostile_turns import calling, spoken, tool_call

pytestmark = pytest.mark.system

DONE = {"content": "done"}
ENVIRONMENTS = {
    "arguments": app_environment,
    "processes": shell_environment,
    "files": shell_environment,
    "servers": server_environment,
    "history": history_environment,
    "seats": seat_environment,
}
TYPED = ("arguments", "history")
"""Kinds whose turns come from an endpoint, because a scripted solution cannot say what is odd in them."""


def test_there_are_enough_of_every_kind():
    assert len({(play.kind, play.task) for play in PLAYS}) == len(PLAYS) >= 200
    assert sum(play.new for play in PLAYS) >= 60
    assert {play.kind for play in PLAYS} == ENVIRONMENTS.keys()


def without_score(run: Run) -> dict[str, str]:
    """Hostile plays without a score, and sound ones without full marks. In a game, ada is sound."""
    bad = {}
    for trace in run:
        marks = trace.seats["ada"].score.value if trace.seats and trace.seats["ada"].score else trace.reward
        if not isinstance(trace.outcome, Scored) or (marks != 1.0 and (trace.seats or trace.task.startswith(SOUND))):
            bad[trace.task] = str(trace.outcome)[:300]
    return bad


def is_accepted(message: dict[str, Any]) -> bool:
    """As strict endpoints are with the calls of earlier turns."""
    calls = [call["function"] for call in message.get("tool_calls") or ()]
    named = all(re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", call["name"]) for call in calls)
    return named and all(isinstance(json.loads(call["arguments"]), dict) for call in calls)


def endpoint_for(plays: Iterable[Play], sound: dict[str, Any]) -> FakeEndpoint:
    """Answers each conversation with the next turn of its play, which the prompt names."""
    turns = {play.task: spoken(play) for play in plays}

    def react(request: Request):
        messages = request.body["messages"]
        if not all(map(is_accepted, messages)):
            return status(400)
        task = next(message["content"] for message in messages if message["role"] == "user").removeprefix("Play ")
        taken = sum(message["role"] == "assistant" for message in messages)
        said = dict([*turns.get(task, [sound]), DONE][: taken + 1][-1])
        return completion(said, said.pop("finish", "tool_calls" if said.get("tool_calls") else "stop"))

    return FakeEndpoint(then=react)


async def run_of(kind: str, plays: list[Play], runs: Any) -> Run:
    env: Environment = ENVIRONMENTS[kind](plays)
    if kind not in TYPED:
        return await run_async(env, "scripted:golden", runs=runs, at_once=8)
    sound = calling(tool_call("look", '{"text": "x"}'))
    async with endpoint_for(plays, sound) as endpoint:
        return await run_async(env, f"openai:fake@{endpoint.url}", runs=runs, at_once=8)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("batch", batches())
def test_every_hostile_play_has_a_score_and_no_sound_rollout_is_lost(batch, tmp_path):
    plays = batches()[batch]
    run = anyio.run(run_of, plays[0].kind, plays, tmp_path)
    assert without_score(run) == {}
    assert len(run) == len(sound_beside(plays))
