"""Several servers of the built-in engine behind one run: their counters say what the router saves, and one of them is killed."""

from contextlib import ExitStack
from pathlib import Path

import pytest

from drive.model_servers import ModelServer
from sandlot import Run
from sandlot.core.trace import Scored
from sandlot.observe.events import RunEvent, TurnTaken
from sandlot.run.config import RunConfig, Selection
from sandlot.run.run import run_config
from sandlot.wiring.config import ModelConfig, Sampling

TALK = Path(__file__).parent.parent / "worlds" / "talk.py"
GROUP = 4
ROLLOUTS = 6 * GROUP


@pytest.fixture
def servers():
    with ExitStack() as stack:
        started = [ModelServer("--kv-events"), ModelServer("--kv-events")]
        for server in started:
            stack.callback(lambda server=server: server.close())
        for server in started:
            server.wait()
        yield started


def talk(servers: list[ModelServer], **more) -> RunConfig:
    spec = f"sandlot:rookie@{','.join(server.url for server in servers)}"
    model = ModelConfig(spec=spec, sampling=Sampling(max_tokens=12), **more)
    return RunConfig(env=str(TALK), model=model, select=Selection(group=GROUP), at_once=8, seed=1)


def num_turns(run: Run) -> int:
    return sum(node.is_turn for trace in run for node in trace.nodes)


@pytest.mark.system
@pytest.mark.timeout(300)
async def test_the_router_finds_more_in_the_caches_than_taking_turns(servers, tmp_path):
    def counted() -> list[float]:
        return [sum(server.gauge(name) for server in servers) for name in ("prompt_tokens", "cached_tokens", "finished")]

    run = await run_config(talk(servers), place=tmp_path / "routed")
    routed = counted()
    assert routed[2] == num_turns(run)
    for server in servers:  # with empty caches
        server.kill()
        server.start()
    for server in servers:
        server.wait()
    run = await run_config(talk(servers, routing="round-robin"), place=tmp_path / "turns")
    turns = counted()
    assert turns[2] == num_turns(run)
    missed, missed_in_turn = 1 - routed[1] / routed[0], 1 - turns[1] / turns[0]
    assert missed < 0.75 * missed_in_turn


@pytest.mark.system
@pytest.mark.timeout(300)
@pytest.mark.parametrize(("on", "routing"), [("local", "prefix"), ("processes:2", "reported")])
async def test_a_server_killed_in_the_middle_and_started_again_loses_and_doubles_nothing(servers, on, routing, tmp_path):
    mortal, other = servers
    taken: list[str] = []

    def watch(event: RunEvent) -> None:
        if isinstance(event, TurnTaken):
            taken.append(event.replica.name)
            if len(taken) == 30:
                mortal.kill()
            if len(taken) == 50:
                mortal.start()

    run = await run_config(talk(servers, routing=routing), place=tmp_path / "run", sink=watch, on=on)
    traces = list(run)
    assert len({trace.key for trace in traces}) == len(traces) == ROLLOUTS
    assert all(isinstance(trace.outcome, Scored) for trace in traces)
    assert len(taken) == num_turns(run) > 50
    retries = [event.detail for trace in traces for event in trace.events if event.kind == "model_retry"]
    assert retries
    assert all(retry["kind"] in {"connect", "malformed"} and mortal.url in retry["message"] for retry in retries)
    assert set(taken[:30]) == {mortal.url, other.url}
    assert taken.count(other.url) == other.gauge("finished")
    mortal.wait()
    assert taken.count(mortal.url) >= mortal.gauge("finished")
    assert run.summary().verdict == "complete"
