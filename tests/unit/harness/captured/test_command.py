"""A foreign agent in a sandbox: its turns are captured token by token, its end is the rollout's, and nothing is swallowed."""

import shlex

import anyio
import pytest

from drive.native_sandboxes import backend_of
from fakes.toy_tokens import END, ScriptedTokens, ToyRenderer, never
from sandlot.core.errors import ConfigError, HarnessError, ModelError
from sandlot.core.limits import Limits
from sandlot.core.ports.model import Sampling
from sandlot.core.task import Task
from sandlot.core.trace import Trace
from sandlot.core.types import End, Role
from sandlot.env.environment import Environment
from sandlot.env.session import open_session
from sandlot.harness.captured.command import CommandAgent
from sandlot.model.policy.tokens import token_policies

TASK = Task("one", prompt="Say 'hi' to \"$HOME\"\nthen stop.")

AGENT = """
import json, os, sys, urllib.request
def post(path, body):
    request = urllib.request.Request(os.environ["ANTHROPIC_BASE_URL"] + path, json.dumps(body).encode())
    return urllib.request.urlopen(request, timeout=30).read()
def chat(messages, **more):
    return json.loads(post("/v1/chat/completions", {"model": "x", "messages": messages, **more}))["choices"][0]["message"]
talk = [{"role": "user", "content": sys.argv[1]}]
"""
TALKS = "for word in ('one', 'two'): talk += [chat(talk), {'role': 'user', 'content': word}]\nprint(chat(talk)['content'])"


def agent(script: str) -> CommandAgent:
    return CommandAgent(f"/usr/bin/python3 -c {shlex.quote(AGENT + script)} {{prompt}}")


async def played(harness, model, *, limits=None, time_s=30.0):
    env = Environment("workshop", image="host", limits=Limits(**(limits or {})))
    trace = Trace(run="r", task="one", rollout=0, seed=0)
    with anyio.fail_after(time_s):
        async with backend_of("root") as backend, open_session(env, TASK, backend=backend) as session:
            policies = token_policies(model, ToyRenderer(), Sampling(max_tokens=64))
            async with policies.policy(TASK, 7) as policy:
                return await harness.play(session, policy, trace), trace


def of_kind(trace, kind):
    return [event.detail for event in trace.events if event.kind == kind]


async def test_a_talk_is_one_path_of_exact_tokens():
    model = ScriptedTokens("A", "B", "C")
    end, trace = await played(agent(TALKS), model)
    assert end is End.DONE
    assert [(node.message.role, node.message.text) for node in trace.path()] == [
        (Role.USER, TASK.prompt),
        (Role.ASSISTANT, "A"),
        (Role.USER, "one"),
        (Role.ASSISTANT, "B"),
        (Role.USER, "two"),
        (Role.ASSISTANT, "C"),
    ]
    assert trace.trainable
    joined = b""
    for node, (ids, *_) in zip(trace.turns(), model.asked, strict=True):
        joined += node.context
        assert joined == b"".join(each.to_bytes(4, "little") for each in ids)
        joined += node.tokens.ids
    (ended,) = of_kind(trace, "agent_ended")
    assert (ended["code"], ended["stdout"]) == (0, "C\n")
    assert of_kind(trace, "captured") == [{"requests": {"clean": 3}}]
    assert trace.phases["tools"] > 0
    assert trace.phases["model"] > 0


async def test_an_agent_with_tools_that_streams_is_captured_the_same():
    script = """
tool = {"type": "function", "function": {"name": "add", "description": "", "parameters": {"type": "object"}}}
def stream(messages):
    lines = post("/v1/chat/completions", {"messages": messages, "tools": [tool], "stream": True}).decode().split("\\n\\n")
    deltas = [json.loads(line[6:])["choices"][0]["delta"] for line in lines if line.startswith("data: {")]
    calls = [call for delta in deltas for call in delta.get("tool_calls", ())]
    content = "".join(delta.get("content") or "" for delta in deltas)
    return {"role": "assistant", "content": content or None, **({"tool_calls": calls} if calls else {})}
said = stream(talk)
talk += [said] + [{"role": "tool", "tool_call_id": call["id"], "content": "3"} for call in said["tool_calls"]]
stream(talk)
"""
    end, trace = await played(agent(script), ScriptedTokens('ok CALL add {"x": 1}', "3"))
    assert end is End.DONE
    roles = [node.message.role for node in trace.path()]
    assert roles == [Role.USER, Role.ASSISTANT, Role.TOOL, Role.ASSISTANT]
    assert trace.nodes[1].message.calls[0].arguments == {"x": 1}
    assert of_kind(trace, "captured") == [{"requests": {"clean": 2}}]
    assert trace.trainable


async def test_the_anthropic_dialect_leads_to_the_same_place():
    script = """
def ask(messages, stream):
    return post("/v1/messages", {"system": "be brief", "messages": messages, "max_tokens": 9, "stream": stream})
said = json.loads(ask(talk, False))
talk += [{"role": "assistant", "content": said["content"]}, {"role": "user", "content": "go on"}]
print(ask(talk, True).decode())
"""
    end, trace = await played(agent(script), ScriptedTokens("A", "B"))
    assert end is End.DONE
    assert [node.message.text for node in trace.path()] == ["be brief", TASK.prompt, "A", "go on", "B"]
    assert "message_stop" in of_kind(trace, "agent_ended")[0]["stdout"]
    assert of_kind(trace, "captured") == [{"requests": {"clean": 2}}]
    assert of_kind(trace, "wishes_ignored") == [{"max_tokens": 9}]


async def test_a_rewritten_past_becomes_a_branch_and_every_token_stays():
    script = "chat(talk); chat(talk + [{'role': 'assistant', 'content': 'X'}, {'role': 'user', 'content': 'go on'}])"
    _, trace = await played(agent(script), ScriptedTokens("A", "B"))
    first, second = [index for index, node in enumerate(trace.nodes) if node.sampled]
    assert [node.message.text for node in trace.path(second)] == [TASK.prompt, "X", "go on", "B"]
    assert trace.nodes[first].message.text == "A"
    assert trace.trainable
    assert of_kind(trace, "captured") == [{"requests": {"clean": 1, "fork": 1}}]


async def test_the_turn_limit_ends_it_and_the_last_turn_was_acted_on():
    end, trace = await played(agent("while True: chat(talk); print('acted', flush=True)"), ScriptedTokens(), limits={"turns": 3})
    assert end is End.TURN_LIMIT
    assert trace.num_turns == 3
    assert of_kind(trace, "agent_ended")[0]["stdout"] == "acted\n" * 3


async def test_the_token_limit_ends_it_too():
    end, trace = await played(agent("while True: chat(talk)"), ScriptedTokens(then="four"), limits={"tokens": 12})
    assert end is End.TOKEN_LIMIT
    assert sum(len(node.tokens) for node in trace.turns()) == 15


async def test_an_agent_that_crashes_is_recorded_with_its_words():
    end, trace = await played(agent("chat(talk); raise SystemError('lost')"), ScriptedTokens("A"))
    assert end is End.DONE
    (crashed,) = of_kind(trace, "agent_crashed")
    assert crashed["code"] == 1
    assert "lost" in crashed["stderr"]


@pytest.mark.parametrize(("command", "words"), [("no-such-agent", "not found"), ("true", "never called"), ("exit 3", "code 3")])
async def test_an_agent_that_never_asked_the_model_has_played_nothing(command, words):
    with pytest.raises(HarnessError, match=words):
        await played(CommandAgent(command), ScriptedTokens())


async def test_a_model_that_fails_is_the_models_failure_whatever_the_agent_does():
    script = "\ntry: chat(talk)\nexcept Exception: pass\nimport time; time.sleep(100)"
    with pytest.raises(ModelError, match="broken"):
        await played(agent(script), ScriptedTokens(ModelError("broken", kind="server")))


async def test_the_agent_gets_the_error_of_a_full_context_and_may_go_on():
    script = "\ntry: chat(talk + [{'role': 'user', 'content': 'x' * 9000}])\nexcept Exception as error: print(error.code)\n"
    end, trace = await played(agent(script), ScriptedTokens())
    assert end is End.TOKEN_LIMIT
    assert of_kind(trace, "context_overflow")
    assert of_kind(trace, "agent_ended")[0]["stdout"] == "400\n"
    end, trace = await played(agent(script + "chat(talk)"), ScriptedTokens("A"))
    assert end is End.DONE


async def test_a_cancelled_rollout_leaves_no_agent_and_no_request():
    model = ScriptedTokens(never)
    with anyio.move_on_after(20):
        async with anyio.create_task_group() as group:
            group.start_soon(played, agent("chat(talk)"), model)
            await model.begun.wait()
            group.cancel_scope.cancel()
    assert model.running == 0


async def test_a_hostile_agent_gets_refusals_and_does_no_harm():
    script = """
for body in (b"{", b"[" * 100000, b'{"messages": []}', b"x" * 1000):
    try: urllib.request.urlopen(urllib.request.Request(os.environ["OPENAI_BASE_URL"] + "/chat/completions", body))
    except urllib.error.HTTPError as error: print(error.code)
chat(talk)
"""
    end, trace = await played(agent(script), ScriptedTokens("A"))
    assert end is End.DONE
    assert of_kind(trace, "agent_ended")[0]["stdout"] == "400\n" * 4
    assert trace.num_turns == 1


async def test_an_environment_without_a_sandbox_is_refused_with_the_fix():
    trace = Trace(run="r", task="one", rollout=0, seed=0)
    async with open_session(Environment("plain"), TASK) as session:
        with pytest.raises(ConfigError, match="--image host"):
            await CommandAgent("true").play(session, None, trace)


def test_an_empty_command_is_refused():
    with pytest.raises(ConfigError, match="--agent-command"):
        CommandAgent(" ")


def test_the_end_of_a_turn_is_a_token_of_it():
    assert ToyRenderer().stop_ids == (END,)
