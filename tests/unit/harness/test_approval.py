"""Turns that wait for a person: each answer does what it says, and no answer does what the author declared safe."""

from contextlib import asynccontextmanager

import anyio
import anyio.to_thread
import msgspec
import pytest

from sandlot import Environment, Limits, Task
from sandlot.core.errors import ConfigError
from sandlot.core.limits import Hold, PlannedCall
from sandlot.core.trace import Cancelled, Trace
from sandlot.harness.approval import HeldTurn
from sandlot.model.policy.scripted import scripted_policies
from sandlot.run.collector import Collector, open_collector
from sandlot.run.config import RunConfig
from sandlot.run.control import RunOrder, tell_run
from sandlot.run.prepare import prepare_run
from sandlot.run.results import Run
from sandlot.wiring.config import AgentConfig, ModelConfig


def bank(**hold) -> Environment:
    """The golden solution transfers 500."""
    env = Environment("bank", limits=Limits(turns=4, time_s=2))
    if hold:
        env.hold("transfer", **hold)

    @env.tasks
    def tasks(rng):
        yield Task("pay", prompt="Pay.")

    @env.tool
    def transfer(world, usd: int) -> str:
        """Transfer."""
        world.state["sent"] = usd
        return f"sent {usd}"

    @env.tool
    def refuse(world, why: str) -> str:
        """Refuse."""
        world.state["why"] = why
        return "refused"

    @env.check(points=1)
    def sent(evidence, task):
        return True, str(evidence.state)

    @env.solution
    async def solve(agent, task):
        await agent.call("transfer", usd=500)
        await agent.say("done")

    return env


@asynccontextmanager
async def held(path, env: Environment):
    """A run whose only rollout waits for a person."""
    config = RunConfig(env=env.name, model=ModelConfig(spec="scripted:golden"))

    @asynccontextmanager
    async def golden():
        yield scripted_policies("golden", env.marked.solution)

    async with (
        open_collector(await prepare_run(env, config), path, policies=golden(), approve=True) as collector,
        anyio.create_task_group() as group,
    ):
        group.start_soon(collector.collect, collector.prepared.plan)
        yield collector


async def waiting(collector: Collector) -> HeldTurn:
    assert collector.approvals is not None
    with anyio.fail_after(10):
        while not collector.approvals.held:
            await anyio.lowlevel.checkpoint()
    return collector.approvals.held[0]


def left(path) -> tuple[Trace, str]:
    """The trace, and the state that its world was left in."""
    (trace,) = Run(path)
    outcome = trace.outcome
    return trace, outcome.score.checks[0].evidence if hasattr(outcome, "score") else ""


async def test_a_held_turn_says_what_it_wants_and_an_approved_one_is_made(tmp_path):
    async with held(tmp_path / "r", bank(wait_s=60)) as collector:
        turn = await waiting(collector)
        assert (turn.task, turn.rollout, turn.turn) == ("pay", 0, 1)
        assert turn.calls == (PlannedCall(name="transfer", arguments={"usd": 500}),)
        assert msgspec.json.decode(turn.told, type=tuple[PlannedCall, ...]) == turn.calls
        status = await anyio.to_thread.run_sync(tell_run, tmp_path / "r", RunOrder(do="approve", held=turn.id))
        assert status.held == ()
    trace, state = left(tmp_path / "r")
    assert state == "{'sent': 500}"
    assert [event.detail["verdict"] for event in trace.events if event.kind == "held"] == ["approved"]
    assert not any(event.kind == "intervention" for event in trace.events)


async def test_changed_calls_are_made_instead_and_the_sampled_turn_stays_in_the_trace(tmp_path):
    async with held(tmp_path / "r", bank(wait_s=60)) as collector:
        turn = await waiting(collector)
        calls = (PlannedCall(name="transfer", arguments={"usd": 7}), PlannedCall(name="refuse", arguments={"why": "half"}))
        await anyio.to_thread.run_sync(tell_run, tmp_path / "r", RunOrder(do="change", held=turn.id, calls=calls))
    trace, state = left(tmp_path / "r")
    assert state == "{'sent': 7, 'why': 'half'}"
    made = [[call.arguments for call in node.message.calls] for node in trace.nodes if node.message.calls]
    assert made == [[{"usd": 500}], [{"usd": 7}, {"why": "half"}]]
    ids = [call.id for node in trace.nodes for call in node.message.calls]
    assert len(set(ids[1:])) == 2
    assert sum(event.kind == "intervention" for event in trace.events) == 1


async def test_a_refused_turn_takes_the_safe_action(tmp_path):
    async with held(tmp_path / "r", bank(wait_s=60, safe="refuse", arguments={"why": "no"})) as collector:
        turn = await waiting(collector)
        await anyio.to_thread.run_sync(tell_run, tmp_path / "r", RunOrder(do="refuse", held=turn.id))
    assert left(tmp_path / "r")[1] == "{'why': 'no'}"


async def test_no_answer_in_time_takes_the_safe_action(tmp_path):
    async with held(tmp_path / "r", bank(wait_s=0.05, safe="refuse", arguments={"why": "late"})):
        pass
    trace, state = left(tmp_path / "r")
    assert state == "{'why': 'late'}"
    assert [event.detail["verdict"] for event in trace.events if event.kind == "held"] == ["no answer"]


async def test_without_a_safe_action_the_rollout_stops(tmp_path):
    async with held(tmp_path / "r", bank(wait_s=0.05)):
        pass
    trace, _ = left(tmp_path / "r")
    assert trace.outcome == Cancelled("a turn was held for a person: no answer")


async def test_an_answer_to_what_does_not_wait_is_refused_and_the_run_can_be_stopped(tmp_path):
    async with held(tmp_path / "r", bank(wait_s=60)) as collector:
        await waiting(collector)
        for order in (RunOrder(do="approve", held="nope"), RunOrder(do="change", held="\x1b[2J" * 99, calls=())):
            with pytest.raises(ConfigError, match="waits: it was answered, or its time is over"):
                await anyio.to_thread.run_sync(tell_run, tmp_path / "r", order)
        await anyio.to_thread.run_sync(tell_run, tmp_path / "r", RunOrder(do="stop"))
    assert len(Run(tmp_path / "r")) == 0


async def test_an_environment_that_holds_nothing_is_not_run_with_approve(tmp_path):
    with pytest.raises(ConfigError, match="`bank` holds no action for a person; declare one with"):
        async with held(tmp_path / "r", bank()):
            pass
    assert not (tmp_path / "r").exists()


async def test_a_harness_that_calls_no_hook_is_refused(tmp_path):
    env = bank(wait_s=1)
    config = RunConfig(
        env=env.name, model=ModelConfig(spec="scripted:golden"), agent=AgentConfig(harness="sandlot.harness.tool_loop:ToolLoop")
    )
    with pytest.raises(ConfigError, match="hooks work with harness `tool-loop` only"):
        async with open_collector(await prepare_run(env, config), tmp_path / "r", approve=True):
            pass


async def test_without_approve_nothing_waits(tmp_path):
    import sandlot

    run = await sandlot.run_async(bank(wait_s=3000), "scripted:golden", runs=tmp_path)
    assert run.summary().scored == 1


@pytest.mark.parametrize(
    ("hold", "said"),
    [
        (lambda env: env.hold(), "names no tool"),
        (lambda env: env.hold(""), "names no tool"),
        (lambda env: env.hold("a", wait_s=0), "waits 0 s; give up to 3000"),
        (lambda env: env.hold("a", wait_s=1e9), "give up to 3000"),
        (lambda env: env.hold("a", arguments={"b": 1}), "arguments without a `safe` tool"),
        (lambda env: [env.hold("a"), env.hold("b")], "a second `env.hold`"),
    ],
)
def test_a_hold_that_makes_no_sense_is_refused(hold, said):
    with pytest.raises(ConfigError, match=said):
        hold(Environment("e"))


def test_what_is_declared_is_kept():
    assert bank(wait_s=9, safe="refuse").marked.hold == Hold(tools=("transfer",), wait_s=9, safe=PlannedCall(name="refuse"))
