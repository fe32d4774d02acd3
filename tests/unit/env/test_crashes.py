"""After the agent has acted, a crash of the environment does not decide whether the rollout is graded, wherever it happens."""

import asyncio
import os
import signal
import sys
from pathlib import Path

import anyio
import pytest

from sandlot import Environment, Limits, McpServer, Task, ToolError, World
from sandlot.core.crashes import REFUSED, crashes_in, signature_of
from sandlot.core.errors import AuthorError, ConfigError, boundary
from sandlot.core.trace import Failed, Scored, Trace
from sandlot.core.types import End, Side
from sandlot.env.folder import load_folder
from sandlot.harness.tool_loop import ToolLoop
from sandlot.model.policy.scripted import scripted_policies
from sandlot.rollout import run_rollout
from sandlot.store.blobs import MemoryBlobs
from sandlot.wiring.parts import Grading, RolloutParts
from worlds.folders import write_environment

SERVER = Path(__file__).parents[1] / "tools" / "raw_server.py"
TASK = Task("one", prompt="Work.")


def shop(**fields) -> Environment:
    env = Environment("shop", **fields)
    env.check(points=1, id="asked")(lambda evidence, task: True)
    return env


async def played(env: Environment, *calls: tuple[str, dict], seats: int = 1) -> Trace:
    async def solve(agent, task):
        for name, arguments in calls:
            await agent.call(name, **arguments)
        await agent.say("done")

    policies = scripted_policies("golden", solve)
    parts = RolloutParts(grading=Grading(env=env), policies=policies, harness=ToolLoop())
    with anyio.fail_after(30):
        return await run_rollout(parts, TASK, run="test", rollout=0, blobs=MemoryBlobs())


def with_tool(env: Environment, act, **how) -> Environment:
    @env.tool(**how)
    def work(world: World, n: int = 1) -> str:
        """Work."""
        return act(world, n)

    return env


def divide(_world, _n):
    return 1 / 0


SECRET = "the answer is 42"


def tell(_world, _n):
    raise KeyError(SECRET)


async def test_a_tool_that_crashes_is_an_error_an_event_and_a_score():
    trace = await played(with_tool(shop(), tell), ("work", {}), ("work", {"n": 2}))
    assert (trace.end, trace.reward) == (End.DONE, 1.0)
    results = [result for node in trace.nodes for result in node.message.results]
    assert [result.error for result in results] == [True, True]
    assert not any(SECRET in result.text for result in results)
    first, again = trace.events
    assert (first.kind, first.turn, first.detail["tool"]) == ("tool_crashed", 1, "work")
    assert first.detail["signature"] == f"KeyError at test_crashes.py:{tell.__code__.co_firstlineno + 1} in tell"
    assert SECRET in first.detail["message"]
    assert again.detail == {"tool": "work", "signature": first.detail["signature"]}


@pytest.mark.parametrize("where", ["tool", "environment"])
async def test_an_author_may_let_a_crash_fail_the_rollout(where):
    env = shop(on_crash="fail" if where == "environment" else "grade")
    trace = await played(with_tool(env, divide, **({"on_crash": "fail"} if where == "tool" else {})), ("work", {}))
    assert isinstance(trace.outcome, Failed)
    assert (trace.outcome.side, trace.outcome.kind, trace.end) == (Side.ENVIRONMENT, "crash", End.CUT)


async def test_a_crash_may_lose_the_rollout_which_ends_without_a_point_and_without_a_failure():
    env = with_tool(shop(on_crash="lose"), divide)
    env.check(points=-1, id="spent")(lambda evidence, task: False)
    looked = []
    env.finish(lambda world, task: looked.append(world))
    trace = await played(env, ("work", {}), ("work", {}))
    assert (trace.end, trace.num_turns, looked) == (End.DONE, 1, [])
    assert isinstance(trace.outcome, Scored)
    assert {check.id: check.points for check in trace.outcome.score.checks} == {"asked": 0.0, "spent": -1.0}
    assert "the rollout is lost by a crash: `work`: tool `work`: ZeroDivisionError" in trace.outcome.score.checks[0].evidence
    assert len(crashes_in(trace)) == 1


async def test_a_crash_that_changed_nothing_does_not_lose_the_rollout():
    def refuse(_world, _n):
        raise AuthorError("the program takes no such action", kind=REFUSED)

    trace = await played(with_tool(shop(on_crash="lose"), refuse), ("work", {}))
    assert (trace.reward, len(crashes_in(trace))) == (1.0, 1)


async def test_a_seat_that_makes_something_crash_may_lose_and_the_others_are_graded():
    env = Environment("game", seats=["ada", "bob"], limits=Limits(turns=3), on_crash="lose")
    for seat in ("ada", "bob"):
        env.check(points=1, id=seat, seat=seat)(lambda evidence, task: True)

    @env.tool
    def bid(world: World, amount: int) -> str:
        """Bid."""
        return str(1 / 0) if world.seat == "ada" else "ok"

    trace = await played(env, ("bid", {"amount": 1}))
    assert {name: record.score and record.score.value for name, record in trace.seats.items()} == {"ada": 0.0, "bob": 1.0}
    assert trace.seats["bob"].end is End.DONE


async def test_a_tool_may_be_graded_where_the_environment_fails():
    trace = await played(with_tool(shop(on_crash="fail"), divide, on_crash="grade"), ("work", {}))
    assert trace.reward == 1.0


def test_another_word_for_what_a_crash_does_is_refused(tmp_path):
    with pytest.raises(ConfigError, match="on_crash='ignore' is unknown; use 'grade', 'lose', 'fail'"):
        shop(on_crash="ignore")
    with pytest.raises(ConfigError, match="on_crash='ignore'"):
        shop().tool(on_crash="ignore")
    folder = write_environment(tmp_path / "sums")
    (folder / "environment.toml").write_text('name = "sums"\non_crash = "fail"\n')
    assert load_folder(folder).on_crash == "fail"


def die(_world, _n):
    os.kill(os.getpid(), signal.SIGKILL)


async def test_an_isolated_tool_whose_process_dies_is_an_error_to_the_agent():
    trace = await played(with_tool(shop(), die, isolate=True), ("work", {}))
    assert trace.reward == 1.0
    (crash,) = crashes_in(trace)
    assert crash.startswith("work: ChildDied at isolate.py:")


class Panic(BaseException):
    """As a panic of code in Rust."""


PLUG_IN_ERRORS = {
    "tool error": ToolError("not today"),
    "exit": SystemExit(3),
    "plain": ValueError("x"),
    "panic": Panic("index 7"),
    "closed": GeneratorExit(),
    "cancelled": asyncio.CancelledError(),
    "group": BaseExceptionGroup("two", [asyncio.CancelledError(), ValueError("x")]),
}


@pytest.mark.parametrize("crash", PLUG_IN_ERRORS)
async def test_whatever_a_tool_of_a_plug_in_raises_reaches_the_agent_as_an_error(crash):
    class Odd:
        def __init__(self, inner):
            self.spec, self.concurrent = inner.spec, True

        async def call(self, world, call):
            raise PLUG_IN_ERRORS[crash]

    env = with_tool(shop(), divide)
    env.marked.tools[:] = [Odd(env.marked.tools[0])]
    trace = await played(env, ("work", {}))
    (result,) = (result for node in trace.nodes for result in node.message.results)
    assert (trace.reward, result.error) == (1.0, True)
    assert bool(crashes_in(trace)) is (crash != "tool error")


@pytest.mark.parametrize("mode", ["exit_in_call", "killed_in_call", "bad_utf8"])
async def test_a_server_outside_that_breaks_is_an_error_to_the_agent(mode):
    env = shop()
    env.mcp(McpServer(name="raw", command=(sys.executable, str(SERVER), mode)))
    trace = await played(env, ("work", {}), ("work", {}))
    assert trace.reward == 1.0
    assert crashes_in(trace).keys() == {"work: server"}


async def test_a_user_who_crashes_ends_the_conversation_and_it_is_graded():
    env = shop()
    env.user(lambda world, text: str(1 / 0))
    trace = await played(env)
    assert (trace.end, trace.reward) == (End.DONE, 1.0)
    (crash,) = crashes_in(trace)
    assert crash.startswith("@env.user: ZeroDivisionError at test_crashes.py:")


@pytest.mark.parametrize("value", [10**30, float("nan"), object()], ids=["large", "nan", "object"])
async def test_a_state_that_a_tool_made_unstorable_is_graded_without_that_value(value):
    env = with_tool(shop(state=lambda: {"kept": 1}), lambda world, n: world.state.update(odd=[value], deep={"x": {2: "y"}}))
    trace = await played(env, ("work", {}))
    assert trace.reward == 1.0
    assert trace.evidence is not None
    assert trace.evidence.state == {"kept": 1, "odd": [None], "deep": {"x": {"2": "y"}}}
    (crash,) = crashes_in(trace)
    assert crash.startswith("world.state: ")


async def test_a_state_without_end_is_cut():
    def loop(world, _n):
        world.state["self"] = [world.state, world.state]

    trace = await played(with_tool(shop(state=lambda: {"kept": 1}), loop), ("work", {}))
    assert trace.reward == 1.0
    assert trace.evidence is not None
    assert trace.evidence.state["kept"] == 1


async def test_a_state_that_began_unstorable_is_the_environments_failure():
    trace = await played(with_tool(shop(state=lambda: {"lock": object()}), lambda world, n: "ok"), ("work", {}))
    assert isinstance(trace.outcome, Failed)
    assert trace.outcome.side is Side.ENVIRONMENT


@pytest.mark.parametrize("limits", [Limits(), Limits(setup_s=0.05)], ids=["raises", "overruns"])
async def test_a_finish_that_crashes_leaves_what_is_there_to_be_graded(limits):
    env = shop(limits=limits)

    @env.finish
    async def look(world, task):
        if limits.setup_s == 0.05:
            await anyio.sleep_forever()
        raise ValueError(SECRET)

    trace = await played(env)
    assert trace.reward == 1.0
    (crash,) = crashes_in(trace)
    assert crash.startswith("@env.finish: ")


@pytest.mark.parametrize("where", ["tool", "round"])
async def test_a_seat_that_makes_something_crash_does_not_void_the_game(where):
    env = Environment("game", seats=["ada", "bob"], limits=Limits(turns=3))
    for seat in ("ada", "bob"):
        env.check(points=1, id=seat, seat=seat)(lambda evidence, task, seat=seat: seat == "bob")

    @env.tool
    def bid(world: World, amount: int) -> str:
        """Bid."""
        if where == "tool" and world.seat == "ada":
            raise ValueError(amount)
        return "ok"

    @env.round
    def settle(world, number):
        if where == "round":
            raise ValueError(number)

    trace = await played(env, ("bid", {"amount": 1}))
    assert {name: record.score and record.score.value for name, record in trace.seats.items()} == {"ada": 0.0, "bob": 1.0}
    (crash,) = crashes_in(trace)
    assert crash.partition(":")[0] == ("bid" if where == "tool" else "@env.round")


async def test_what_crashes_before_the_agent_acts_is_still_a_failure():
    env = shop()
    env.setup(divide)
    trace = await played(env)
    assert isinstance(trace.outcome, Failed)
    assert (trace.outcome.side, trace.reward) == (Side.ENVIRONMENT, None)


def test_a_signature_has_no_word_of_the_agent():
    for word in ("tea", "oil"):
        with pytest.raises(AuthorError) as caught, boundary(AuthorError, "tool `buy`"):
            raise KeyError(word)
        assert signature_of(caught.value).startswith("KeyError at test_crashes.py:")
        assert word not in signature_of(caught.value)
