"""A real agent from PyPI that has only a shell does office work: the tools of the apps are reached with the command `tool`.

The model is scripted: what the golden solution does, each call as a shell command. So the whole road is played as a user would
take it, `sandlot run` with an OpenAI endpoint, and the score is known beforehand.
"""

import json
import shlex
import sys
from pathlib import Path

import anyio
import pytest

from drive.command_line import environ
from drive.mini_swe_agent import SUBMIT, install_mini_swe_agent
from fakes.endpoint import Answer, FakeEndpoint, completion
from sandlot import load, tasks_of
from sandlot.core.trace import ToolCall, Trace
from sandlot.harness.tool_loop import ToolLoop
from sandlot.model.policy.scripted import ScriptedPolicies
from sandlot.rollout import run_rollout
from sandlot.store.blobs import MemoryBlobs
from sandlot.store.reader import RunReader
from sandlot.wiring.parts import Grading, RolloutParts

pytestmark = [pytest.mark.system, pytest.mark.timeout(900)]

COMPANY = Path(__file__).parents[2] / "environments" / "company"
TASK = "finance-credit-2"


async def golden() -> Trace:
    """What the golden solution does."""
    env = load(COMPANY)
    assert env.marked.solution is not None
    policies = ScriptedPolicies("golden", lambda _task, _seed: env.marked.solution)
    parts = RolloutParts(grading=Grading(env=env), policies=policies, harness=ToolLoop())
    task = next(each for each in tasks_of(env) if each.id == TASK)
    return await run_rollout(parts, task, run="golden", rollout=0, blobs=MemoryBlobs())


def in_shell(call: ToolCall) -> str:
    return f"tool {shlex.quote(call.name)} {shlex.quote(json.dumps(call.arguments, ensure_ascii=False))}"


def turn(text: str, *commands: str) -> Answer:
    calls = [
        {"id": f"c{place}", "type": "function", "function": {"name": "bash", "arguments": json.dumps({"command": command})}}
        for place, command in enumerate(commands)
    ]
    return completion({"content": text, "tool_calls": calls}, "tool_calls")


async def test_mini_swe_agent_solves_a_task_of_the_company_with_full_marks(tmp_path):
    command = install_mini_swe_agent()
    first = await golden()
    turns = [node.message for node in first.turns()]
    answers = [turn("I look at the tools.", "tool --list", "tool create-credit-note --help")]
    answers += [turn(said.text, *map(in_shell, said.calls)) for said in turns if said.calls]
    answers.append(turn(turns[-1].text, SUBMIT))
    async with FakeEndpoint(answers) as endpoint:
        words = ["run", COMPANY, "--image", "host", "--task", TASK, "--model", f"openai:scripted@{endpoint.url}"]
        line = [sys.executable, "-m", "sandlot", *map(str, words), "--agent-command", command, "--json"]
        done = await anyio.run_process(line, cwd=tmp_path, env=environ(OPENAI_API_KEY="none"), check=False)
    assert done.returncode == 0, done.stderr.decode()[-2000:]
    told = json.loads(done.stdout)
    assert (told["scored"], told["pass_rate"]) == (1, 1.0)
    assert not endpoint.answers, "the agent ended before the work was done"
    assert "create-credit-note" in json.dumps(endpoint.requests[1].body["messages"][-2:])
    (trace,) = RunReader(tmp_path / told["run"]).traces()
    made = [(event.detail["tool"], event.detail["arguments"]) for event in trace.events if event.kind == "tool_called"]
    assert made == [(call.name, call.arguments) for said in turns for call in said.calls]
    assert trace.evidence.apps.journal == first.evidence.apps.journal, "the same work leaves the same bytes"
