"""A foreign agent calls the environment's tools with a command: the same limits, rules and events hold, and it is hostile."""

import shlex
from typing import NamedTuple

import anyio
import pytest

from drive.native_sandboxes import backend_of
from fakes.toy_tokens import ScriptedTokens, ToyRenderer, never
from sandlot.core.errors import AuthorError, ToolError
from sandlot.core.limits import Constraint, Limits, OnBreach
from sandlot.core.ports.model import Sampling
from sandlot.core.task import Task
from sandlot.core.trace import Trace
from sandlot.core.types import End, Role
from sandlot.env.environment import Environment
from sandlot.env.session import MAX_CALLS, open_session
from sandlot.harness.captured import tools as served
from sandlot.harness.captured.command import CommandAgent
from sandlot.model.policy.tokens import token_policies

TASK = Task("one", prompt="Add the numbers.")
AGENT = """
import json, os, subprocess, sys, threading, time, urllib.error, urllib.request
BASE = os.environ["ANTHROPIC_BASE_URL"]
def post(path, body):
    return urllib.request.urlopen(urllib.request.Request(BASE + path, body), timeout=30).read().decode()
def refused(path, body):
    try: return post(path, body)
    except urllib.error.HTTPError as error: return str(error.code)
    except urllib.error.URLError: return "413"  # the host closed the connection while the body was sent
def turn(): return post("/v1/chat/completions", json.dumps({"messages": [{"role": "user", "content": "go"}]}).encode())
def tool(*words, stdin=""):
    done = subprocess.run(["tool", *words], input=stdin, capture_output=True, text=True)
    print(done.returncode, (done.stdout + done.stderr).strip(), flush=True)
def wait_until_begun():
    while not os.path.exists("/begun"): time.sleep(0.01)
turn()
"""


def office(**more) -> Environment:
    env = Environment("office", image="host", state=lambda: {"added": [], "ended": 0}, **more)

    @env.tool
    def add(world, a: int, b: int = 1) -> str:
        """Add two numbers.

        a: the first
        """
        if a < 0:
            raise ToolError("no negative numbers")
        world.state["added"].append([a, b])
        return str(a + b)

    @env.tool
    def fail(world) -> str:
        "Break."
        raise ZeroDivisionError("the author's bug")

    @env.tool
    async def slow(world, seconds: float = 2) -> str:
        "Take a while."
        await world.write("/begun", "")
        await anyio.sleep(seconds)
        world.state["ended"] += 1
        return "slept"

    @env.tool
    def much(world) -> str:
        "A long text."
        return "x" * 50_000

    return env


class Left(NamedTuple):
    """What a rollout left: its state, the calls that observers saw, its files."""

    state: dict
    calls: list
    files: set


async def played(script: str, env: Environment | None = None, turns: int = 1, then=(), within: float = 60):
    trace = Trace(run="r", task="one", rollout=0, seed=0)
    harness = CommandAgent(f"/usr/bin/python3 -c {shlex.quote(AGENT + script)}")
    with anyio.fail_after(60):
        async with backend_of("root") as backend, open_session(env or office(), TASK, backend=backend) as session:
            calls = []
            session.on_call = lambda turn, name, _seconds, error: calls.append((turn, name, error))
            policies = token_policies(ScriptedTokens(*["ok"] * turns, *then), ToyRenderer(), Sampling(max_tokens=64))
            async with policies.policy(TASK, 7) as policy:
                end = None
                with anyio.move_on_after(within):  # as the rollout's time limit does
                    end = await harness.play(session, policy, trace)
            evidence = await session.gather("")
            return end, trace, Left(session.world.state, calls, set(evidence.files))


def of_kind(trace, kind):
    return [event.detail for event in trace.events if event.kind == kind]


def said(trace) -> list[str]:
    (ended,) = of_kind(trace, "agent_ended")
    return ended["stdout"].splitlines()


async def test_a_call_from_the_shell_is_a_tool_call_in_state_events_and_trace():
    end, trace, left = await played("""tool("add", '{"a": 2, "b": 3}')""")
    assert end is End.DONE
    assert said(trace) == ["0 5"]
    assert left.state["added"] == [[2, 3]]
    assert left.calls == [(1, "add", False)]
    (called,) = of_kind(trace, "tool_called")
    assert (called["tool"], called["arguments"], called["text"], called["error"]) == ("add", {"a": 2, "b": 3}, "5", False)
    assert next(event for event in trace.events if event.kind == "tool_called").turn == 1


async def test_the_command_explains_itself_and_takes_arguments_from_stdin():
    script = """
tool("--list")
tool("add", "--help")
tool("add", "-", stdin='{"a": 4}')
tool()
"""
    _, trace, _ = await played(script)
    text = "\n".join(said(trace))
    assert "add(a, [b])" in text
    assert "Add two numbers." in text
    assert '"required": [' in text
    assert "0 5" in said(trace)
    assert "usage: tool" in text
    assert "bash" not in text, "a shell agent has its own"


async def test_the_prompt_names_the_command_and_the_image_keeps_no_trace_of_it():
    env = office()
    script = "import os; print(os.environ['SANDLOT_PROMPT'])"
    _, trace, left = await played(script, env)
    assert "tool --list" in "\n".join(said(trace))
    assert left.files == set()


async def test_without_tools_outside_the_sandbox_nothing_is_offered():
    script = "import shutil, os; print(shutil.which('tool'), os.environ['SANDLOT_PROMPT']); print(refused('/tools', None))"
    _, trace, _ = await played(script, Environment("bare", image="host"))
    assert said(trace) == [f"None {TASK.prompt}", "404"]


async def test_wrong_calls_are_answered_as_any_wrong_call_and_leave_an_exit_code():
    script = """
tool("nothing", "{}")
tool("add", '{"a": "x"}')
tool("add", '{"a": -1}')
tool("add", "{")
tool("add", "[1]")
"""
    _, trace, left = await played(script)
    lines = said(trace)
    assert lines[0].startswith("1 There is no tool `nothing`.")
    assert [line[0] for line in lines] == list("11122")
    assert left.state["added"] == []
    assert left.calls == [(1, "nothing", True), (1, "add", True), (1, "add", True)]


async def test_hostile_bodies_are_refused_and_do_no_harm():
    script = """
def body(value): return b'{"name": "add", "arguments": ' + value + b'}'
bodies = [b"{", b"[" * 100000, b"{}", b'{"name": 1}', body(b"[]"), body(b'{"a": 1e999}'), b"x" * 2_000_000,
          body(b'{"a": ' + b"9" * 5000 + b'}'), b'{"name": "\\\\ud800", "arguments": {}}',
          body(b'{"a":' * 900 + b"1" + b"}" * 900)]
print(*[refused("/tools/call", body)[:3] for body in bodies])
print(refused("/tools/call?name=add", None), refused("/tools/../etc/passwd", None))
tool("add", '{"a": 1}')
tool("add", "-", stdin='{"a": "' + "x" * 2_000_000 + '"}')
"""
    end, trace, left = await played(script)
    assert end is End.DONE
    codes = said(trace)[0].split()
    assert codes[:5] == ["400"] * 5
    assert codes[6] == "413"
    assert said(trace)[1] == "405 404"
    assert said(trace)[2] == "0 2"
    assert said(trace)[3].startswith("2 tool: the arguments are larger than")
    assert left.state["added"] == [[1, 1]]


async def test_a_flood_of_calls_is_limited_in_each_turn():
    script = f"""
body = b'{{"name": "add", "arguments": {{"a": 1}}}}'
for _ in range({MAX_CALLS + 20}): last = json.loads(post("/tools/call", body))
print(last["text"])
turn()
tool("add", '{{"a": 1}}')
"""
    _, trace, left = await played(script, turns=2)
    assert said(trace) == [f"Not run: a turn may make at most {MAX_CALLS} calls.", "0 2"]
    assert len(left.state["added"]) == MAX_CALLS + 1
    assert len(of_kind(trace, "tool_called")) == MAX_CALLS + 1
    assert of_kind(trace, "tool_calls_refused") == [{"calls": 20}]


async def test_the_arguments_of_a_rollout_are_limited_in_size(monkeypatch):
    monkeypatch.setattr(served, "MAX_ARGUMENT_BYTES", 1000)
    script = """
tool("add", json.dumps({"a": 1, "c": "x" * 900}))
tool("add", json.dumps({"a": 1, "c": "x" * 900}))
"""
    _, trace, _ = await played(script)
    assert "used up" in said(trace)[-1]
    assert len(of_kind(trace, "tool_called")) == 1


async def test_rules_hold_and_a_rule_that_ends_the_rollout_ends_it():
    rule = Constraint(id="once", tool="add", at_most=1, on_breach=OnBreach.END)
    script = """
tool("add", '{"a": 1}')
tool("add", '{"a": 2}')
time.sleep(100)
"""
    end, trace, left = await played(script, office(constraints=[rule]))
    assert end is End.BREACH
    assert left.state["added"] == [[1, 1]]
    assert of_kind(trace, "breach")


async def test_time_and_output_limits_of_a_call_hold():
    limits = Limits(tool_s=0.2, tool_output_chars=1000)
    _, trace, left = await played("""tool("slow")\ntool("much")""", office(limits=limits))
    assert "timed out" in said(trace)[0]
    assert left.state["ended"] == 0
    assert len(said(trace)[1]) < 1200
    assert of_kind(trace, "tool_timeout")
    (cut,) = of_kind(trace, "tool_output_cut")
    assert cut["chars"] == 50_000


async def test_a_tool_that_breaks_is_answered_with_an_error_and_the_rollout_goes_on():
    end, trace, left = await played("""tool("fail"); tool("add", '{"a": 1}')""")
    assert end is End.DONE
    assert left.state["added"] == [[1, 1]]
    (crashed,) = of_kind(trace, "tool_crashed")
    assert crashed["tool"] == "fail"


async def test_a_tool_that_breaks_ends_the_rollout_where_its_world_cannot_be_trusted_then():
    with pytest.raises(AuthorError, match="the author's bug"):
        await played("""tool("fail")\ntime.sleep(100)""", env=office(on_crash="fail"))


async def test_a_call_in_flight_at_the_agents_exit_ends_before_the_world_is_read_and_no_other_starts():
    script = """
def slow(): refused("/tools/call", b'{"name": "slow", "arguments": {}}')
def start(): threading.Thread(target=slow, daemon=True).start()
start(); start(); start(); wait_until_begun()
os._exit(0)
"""
    end, trace, left = await played(script)
    assert end is End.DONE
    assert left.state["ended"] == 1
    assert len(of_kind(trace, "tool_called")) == 1


async def test_a_call_whose_client_went_away_is_not_cut_in_the_middle():
    script = """
child = subprocess.Popen(["tool", "slow"]); wait_until_begun(); child.kill()
tool("add", '{"a": 1}')
"""
    _, _, left = await played(script)
    assert left.state == {"added": [[1, 1]], "ended": 1}


async def test_a_model_request_that_is_given_up_does_not_take_the_record_of_a_call_with_it():
    script = """
import socket
body = json.dumps({"messages": [{"role": "user", "content": "go"}]})
talk = socket.create_connection(BASE.removeprefix("http://").split(":"))
talk.sendall(f"POST /v1/chat/completions HTTP/1.1\\r\\nHost: x\\r\\nContent-Length: {len(body)}\\r\\n\\r\\n{body}".encode())
time.sleep(0.3)
child = subprocess.Popen(["tool", "add", '{"a": 1}'])
try: child.wait(timeout=2)
except subprocess.TimeoutExpired: pass
talk.close()
child.wait()
"""
    _, trace, left = await played(script, then=(never,))
    assert left.state["added"] == [[1, 1]]
    assert [called["tool"] for called in of_kind(trace, "tool_called")] == ["add"]


async def test_calls_are_not_messages_so_the_tokens_stay_the_models():
    _, trace, _ = await played("""tool("add", '{"a": 1}')""")
    assert [node.message.role for node in trace.nodes] == [Role.USER, Role.ASSISTANT]
    assert trace.trainable


async def test_calls_that_wait_are_few_and_one_more_is_refused():
    script = """CALL = json.dumps({"name": "slow", "arguments": {"seconds": 1}}).encode(); seen = []
threads = [threading.Thread(target=lambda: seen.append(refused("/tools/call", CALL))) for _ in range(9)]
for each in threads: each.start()
for each in threads: each.join()
print(seen.count("429"), flush=True)
"""
    _, trace, left = await played(script)
    (refused,) = map(int, said(trace))
    assert refused >= 1
    assert left.state["ended"] == len(of_kind(trace, "tool_called")) == 9 - refused


async def test_a_call_that_the_time_limit_ends_is_on_record():
    _, trace, left = await played("""tool("slow", '{"seconds": 50}')""", within=3)
    assert left.state["ended"] == 0
    (called,) = of_kind(trace, "tool_called")
    assert (called["tool"], called["error"]) == ("slow", True)
