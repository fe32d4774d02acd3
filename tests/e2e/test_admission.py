"""Whole runs that find out how many rollouts may be in flight: against a real endpoint that refuses, and a judge that does."""

import json
from collections import Counter
from dataclasses import replace

import anyio
import pytest

from command_line import NOTES
from fake_endpoint import Answer, FakeEndpoint, Request, calls, says
from sandlot import Environment, Evidence, Limits, Run, Task, World
from sandlot.observe import host
from sandlot.observe.events import AdmissionChanged, ModelRetried, RunEvent
from sandlot.run import admission_watch
from sandlot.run.config import RunConfig, Selection
from sandlot.run.run import run_config, run_together
from sandlot.wiring.config import ModelConfig

MOST = 16


def note_writer(request: Request) -> Answer:
    roles = [message["role"] for message in request.body["messages"]]
    if "tool" in roles:
        return says("done")
    prompt = next(message["content"] for message in request.body["messages"] if message["role"] == "user")
    return calls(("write_note", json.dumps({"text": prompt.split("`")[1]})))


def config(endpoint: FakeEndpoint, rollouts: int, **fields) -> RunConfig:
    model = ModelConfig(spec=f"openai:m@{endpoint.url}", patience_s=120.0, connections=256)
    return RunConfig(env=str(NOTES), model=model, select=Selection(rollouts=rollouts), adapt=True, **fields)


def limits_of(events: list[RunEvent]) -> list[int]:
    return [event.limit for event in events if isinstance(event, AdmissionChanged)]


def require_each_once(run: Run, rollouts: int) -> None:
    assert run.verdict == "complete"
    assert len(run) == rollouts
    assert max(Counter((row.task, row.rollout) for row in run.rows).values()) == 1
    assert {row.score for row in run.rows} == {1.0}


@pytest.mark.timeout(120)
async def test_against_a_model_that_refuses_beyond_a_number_the_limit_settles_near_it(tmp_path):
    events: list[RunEvent] = []
    async with FakeEndpoint(then=note_writer, latency_s=0.1, refuse_above=MOST) as endpoint:
        run = await run_config(config(endpoint, 800, at_once=256), runs=tmp_path, sink=events.append)
    require_each_once(run, 800)
    limits = limits_of(events)
    assert max(limits) <= 4 * MOST, "it was not let to the ceiling"
    settled = limits[len(limits) // 2 :]
    assert 0.5 * MOST <= min(settled) <= max(settled) <= 2 * MOST
    assert "model" in {event.reason for event in events if isinstance(event, AdmissionChanged)}
    record = run.sittings[-1].admission
    assert record is not None
    assert (record.lowest, record.highest) == (min(limits), max(limits))
    assert sum(isinstance(event, ModelRetried) for event in events) == endpoint.num_refused
    assert endpoint.num_refused < 400, "half a refusal for each rollout"


@pytest.mark.timeout(60)
async def test_where_nothing_is_short_the_limit_reaches_what_the_user_allows(tmp_path):
    events: list[RunEvent] = []
    async with FakeEndpoint(then=note_writer, latency_s=0.05) as endpoint:
        run = await run_config(config(endpoint, 400, at_once=32), runs=tmp_path, sink=events.append)
        assert endpoint.most_at_once <= 32
    require_each_once(run, 400)
    assert limits_of(events)[-1] == 32
