"""MCP servers inside the sandbox as an environment's tools: over their streams, and over a port."""

import os
import signal
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import pytest

from sandlot import World
from sandlot.core.errors import AuthorError, ConfigError, SandboxError
from sandlot.core.task import Task
from sandlot.core.trace import Message, Scored, ToolCall, ToolResult
from sandlot.core.types import End, Role
from sandlot.env.environment import Environment
from sandlot.env.session import open_session
from sandlot.harness.tool_loop import ToolLoop
from sandlot.model.policy.scripted import scripted_policies
from sandlot.rollout import run_rollout
from sandlot.sandbox.native.backend import open_native
from sandlot.store.blobs import MemoryBlobs
from sandlot.tools.mcp import McpServer
from sandlot.wiring.parts import Grading, RolloutParts
from worlds.web_server import HTTP

SIGNATURE = "server, in the sandbox"
SERVER = Path(__file__).parents[1] / "tools" / "raw_server.py"


def environment(server, image="host"):
    env = Environment("inside", image=image)
    env.mcp(server)

    @env.setup
    async def put_servers(world, task):
        await world.write("/srv/server.py", SERVER.read_bytes())
        await world.write("/srv/web.py", HTTP)
        if server.url is not None and server.name != "missing":
            await world.start("python3 /srv/web.py", ready=8080)

    return env


def raw(mode, **fields):
    return McpServer(name="raw", command=("python3", "/srv/server.py", mode, "marker"), inside=True, **fields)


@asynccontextmanager
async def opened(server):
    with anyio.fail_after(30):
        async with (
            open_native() as backend,
            open_session(environment(server), Task("one", prompt="go"), backend=backend) as session,
        ):
            await session.reset()
            yield session, backend


async def called(session, name="work", *, events=None, **arguments):
    call = ToolCall(id="c1", name=name, arguments=arguments)
    step = await session.step(Message(role=Role.ASSISTANT, parts=(call,)))
    if events is not None:
        events += step.events
    return next(part for part in step.messages[0].parts if isinstance(part, ToolResult))


async def test_a_server_inside_finds_what_setup_made_and_works_beside_the_other_tools():
    async with opened(raw("honest", prefix="raw_")) as (session, _):
        assert [tool.name for tool in session.tools] == ["bash", "raw_work"]
        assert (await called(session, "raw_work", n=3)).text == "worked {'n': 3}"
        assert "server.py honest marker" in (await called(session, "bash", command="ps -e -o args=")).text


async def test_a_server_inside_sees_the_sandbox_and_nothing_of_ours(monkeypatch):
    monkeypatch.setenv("SECRET_TOKEN", "hunter2")
    async with opened(raw("environment", env={"COLOUR": "blue"}, cwd="/srv")) as (session, _):
        seen = (await called(session)).text
    assert '"COLOUR": "blue"' in seen
    assert "hunter2" not in seen
    async with opened(raw("folder", cwd="/srv")) as (session, _):
        assert (await called(session)).text == "/srv"


@pytest.mark.parametrize(
    ("mode", "said"),
    [
        ("exit_in_call", "exit code 3; it wrote: about to fall over"),
        ("killed_in_call", "killed by SIGKILL"),
        ("bad_utf8", "the response is not JSON-RPC"),
    ],
)
async def test_a_server_inside_that_breaks_is_an_error_to_the_agent_and_an_event(mode, said):
    async with opened(raw(mode)) as (session, _):
        events = []
        result = await called(session, events=events)
    assert (result.error, "`work` failed" in result.text) == (True, True)
    assert said not in result.text
    (event,) = events
    assert (event.kind, event.detail["tool"], event.detail["signature"]) == ("tool_crashed", "work", SIGNATURE)
    assert event.detail["message"].startswith("MCP server `raw` failed in `work`")
    assert said in event.detail["message"]


@pytest.mark.parametrize("transport", ["streams", "port"])
async def test_an_agent_that_kills_a_server_inside_is_graded_on_what_it_left(transport):
    port = McpServer(name="web", url="http://127.0.0.1:8080/mcp", inside=True)
    env = environment(raw("honest") if transport == "streams" else port)
    env.check(points=1, id="kept")(lambda evidence, task: evidence.exists("/kept"))
    kill = "touch /kept; pkill -f 'srv/(server|web).py'; sleep 0.1"
    calls = [ToolCall("c1", "bash", {"command": kill}), *(ToolCall(f"c{n}", "work", {"n": 1}) for n in (2, 3))]

    async def solve(agent, task):
        for call in calls:
            await agent.call(call.name, **call.arguments)
        await agent.say("done")

    with anyio.fail_after(30):
        async with open_native() as backend:
            parts = RolloutParts(
                grading=Grading(env=env, backend=backend), policies=scripted_policies("golden", solve), harness=ToolLoop()
            )
            trace = await run_rollout(parts, Task("one", prompt="go"), run="test", rollout=0, blobs=MemoryBlobs())
    assert trace.outcome == Scored(trace.outcome.score), trace.outcome
    assert (trace.end, trace.reward) == (End.DONE, 1.0)
    assert [(event.kind, event.detail["tool"], event.detail["signature"]) for event in trace.events] == [
        ("tool_crashed", "work", SIGNATURE)
    ] * 2
    assert [result.error for node in trace.nodes for result in node.message.results] == [False, True, True]


@pytest.mark.parametrize("way", ["read", "exec", "connect", "start"])
async def test_a_tool_that_misses_what_the_agent_removed_says_that_it_was_in_the_sandbox(way):
    env = Environment("shop", image="host")
    env.check(points=1, id="kept")(lambda evidence, task: True)

    @env.tool
    async def look(world: World) -> str:
        """Look."""
        match way:
            case "read":
                return (await world.read("/data/gone")).decode()
            case "exec":
                return (await world.exec("cat /data/gone", check=True)).stdout
            case "connect":
                await world.connect(8080)
            case _:
                await world.start("exec /data/gone", ready=8080)
        return "ok"

    async def solve(agent, task):
        await agent.call("look")
        await agent.say("done")

    with anyio.fail_after(30):
        async with open_native() as backend:
            parts = RolloutParts(
                grading=Grading(env=env, backend=backend), policies=scripted_policies("golden", solve), harness=ToolLoop()
            )
            trace = await run_rollout(parts, Task("one", prompt="go"), run="test", rollout=0, blobs=MemoryBlobs())
    assert trace.reward == 1.0
    (event,) = trace.events
    assert event.detail["signature"].endswith(", in the sandbox")
    assert "gone" not in event.detail["signature"]


@pytest.mark.parametrize(
    ("server", "said"),
    [
        (raw("exit_at_start"), "exit code 1; it wrote: no config file"),
        (raw("hang_at_start", start_s=1.0), "did not start within 1 s; it wrote: waiting for a licence"),
        (McpServer(name="raw", command=("no-such-server",), inside=True), "cannot start `no-such-server`"),
        (McpServer(name="missing", url="http://127.0.0.1:9/mcp", inside=True), "it cannot be reached"),
    ],
)
async def test_a_server_inside_that_does_not_start_is_told_with_what_it_said(server, said):
    with pytest.raises(AuthorError, match="did not start") as caught:
        async with opened(server):
            raise AssertionError("it opened")
    assert said in str(caught.value)


async def test_a_flood_from_a_server_inside_is_held_back():
    async with opened(raw("huge")) as (session, _):
        assert (await called(session)).text == "the response is larger than 8388608 bytes; request less in one call"
    async with opened(raw("endless_line")) as (session, _):
        with anyio.move_on_after(0.5) as scope:
            await called(session)
        assert scope.cancelled_caught


async def test_a_stubborn_server_inside_ends_with_the_world():
    async with open_native() as backend:
        async with open_session(environment(raw("stubborn")), Task("one", prompt="go"), backend=backend):
            assert await backend.count() == 1
        await backend.settle(0)


async def test_a_sandbox_that_dies_under_its_server_is_the_sandboxs_failure():
    async with opened(raw("hang_in_call")) as (session, backend):
        children = Path(f"/proc/{backend.machines.zygote.pid}/task/{backend.machines.zygote.pid}/children").read_text().split()
        async with anyio.create_task_group() as group:

            async def die():
                await anyio.wait_all_tasks_blocked()
                os.kill(int(children[0]), signal.SIGKILL)

            group.start_soon(die)
            with pytest.raises(SandboxError, match="died"):
                await called(session)


async def test_a_server_inside_is_reached_over_its_port():
    async with opened(McpServer(name="web", url="http://127.0.0.1:8080/mcp", inside=True)) as (session, _):
        assert (await called(session, n=3)).text == "xxx"
        assert (await called(session, n=9_000_000)).text == "the response is larger than 8388608 bytes; request less in one call"
        assert (await called(session, n=2)).text == "xx"
        await called(session, "bash", command="pkill -f web.py")
        events = []
        assert (await called(session, n=1, events=events)).error
        assert "cannot be reached" in events[0].detail["message"]


async def test_without_a_sandbox_there_is_no_inside():
    with pytest.raises(AuthorError, match="no sandbox"):
        async with open_session(environment(raw("honest"), image=None), Task("one", prompt="go")):
            pass


@pytest.mark.parametrize(
    "fields",
    [
        {"command": ("x",), "pass_env": ("TOKEN",)},
        {"url": "http://127.0.0.1:8080/mcp", "headers": {"Authorization": "TOKEN"}},
        {"url": "https://127.0.0.1:8080/mcp"},
        {"url": "http://example.com:8080/mcp"},
    ],
)
def test_what_makes_no_sense_inside_is_refused(fields):
    with pytest.raises(ConfigError, match=r"MCP server `x`.*(enter a sandbox|inside a sandbox)"):
        McpServer(name="x", inside=True, **fields)
