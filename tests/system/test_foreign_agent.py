"""A real agent from PyPI, unmodified, inside a sandbox: what it does is captured token by token.

It speaks to a scripted model behind a real renderer, so that every token is known beforehand.
"""

import struct

import pytest

from builders.model_folders import FAMILIES
from drive.mini_swe_agent import install_mini_swe_agent
from drive.native_sandboxes import backend_of
from fakes.toy_tokens import ScriptedTokens
from sandlot.core.limits import Limits
from sandlot.core.ports.model import Sampled, Sampling
from sandlot.core.task import Task
from sandlot.core.tokens import unpacked_ids
from sandlot.core.trace import Message, Text, ToolCall, Trace
from sandlot.core.types import End, Role
from sandlot.env.environment import Environment
from sandlot.env.session import open_session
from sandlot.harness.captured.command import CommandAgent
from sandlot.model.policy.tokens import token_policies
from sandlot.model.render.open import open_renderer

pytestmark = [pytest.mark.system, pytest.mark.timeout(900)]

TASK = Task("count", prompt="Write the number of lines of /etc/passwd to /out.txt.")


@pytest.fixture(scope="module")
def agent() -> CommandAgent:
    return CommandAgent(install_mini_swe_agent())


@pytest.fixture
def renderer(tmp_path):
    return open_renderer(FAMILIES["qwen2"](tmp_path / "qwen2"))


def turn(renderer, text: str, *commands: str) -> Sampled:
    """What a model would have sampled to say this and run these."""
    calls = [ToolCall(f"c{place}", "bash", {"command": command}) for place, command in enumerate(commands)]
    ids = renderer.turn(Message(role=Role.ASSISTANT, parts=(Text(text), *calls)))
    num = len(ids)
    return Sampled(
        ids=struct.pack(f"<{num}i", *ids), logprobs=struct.pack(f"<{num}f", *[-0.5] * num), versions=((num, 3),), stop="stop"
    )


async def played(agent, renderer, *turns):
    model = ScriptedTokens(*turns, context=20_000)
    env = Environment("workshop", image="host", limits=Limits(turns=8))
    trace = Trace(run="r", task=TASK.id, rollout=0, seed=0)
    async with backend_of("root") as backend, open_session(env, TASK, backend=backend) as session:
        async with token_policies(model, renderer, Sampling(max_tokens=400)).policy(TASK, 7) as policy:
            end = await agent.play(session, policy, trace)
        return end, trace, model, await session.world.list("/")


def require_exact(trace: Trace, model: ScriptedTokens, turns) -> None:
    """Every prompt is its path's contexts and tokens, joined; every sampled token is in the trace as it was sampled."""
    sampled = [index for index, node in enumerate(trace.nodes) if node.sampled]
    assert [trace.nodes[index].tokens.ids for index in sampled] == [each.ids for each in turns]
    for index, (ids, *_) in zip(sampled, model.asked, strict=True):
        path = trace.path(index)
        joined = b"".join(node.context + (node.tokens.ids if node.tokens and node is not path[-1] else b"") for node in path)
        assert unpacked_ids(joined) == ids


def requests(trace: Trace) -> dict:
    return next(event.detail["requests"] for event in trace.events if event.kind == "captured")


async def test_a_task_solved_by_mini_swe_agent_is_one_row_of_exact_tokens(agent, renderer):
    turns = [
        turn(renderer, "Let me look.  \n", "wc -l < /etc/passwd", "ls /"),
        turn(renderer, "Üben: schön, 'quoted' \"text\"", "wc -l < /etc/passwd > /out.txt; printf '{\"a\": [1, 2]}\\n'"),
        turn(renderer, "Done.", "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"),
    ]
    end, trace, model, files = await played(agent, renderer, *turns)
    assert end is End.DONE
    assert "/out.txt" in files
    assert requests(trace) == {"clean": 3}
    require_exact(trace, model, turns)
    assert len(trace.path()) == len(trace.nodes)
    assert trace.trainable


async def test_the_turns_it_leaves_out_of_its_history_stay_in_the_trace(agent, renderer):
    """It forgets a turn without a call and complains instead: the next one is a branch, and no token is lost."""
    turns = [
        turn(renderer, "I only talk."),
        turn(renderer, "Now I act.", "echo 3 > /out.txt"),
        turn(renderer, "Done.", "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"),
    ]
    end, trace, model, files = await played(agent, renderer, *turns)
    assert end is End.DONE
    assert "/out.txt" in files
    assert requests(trace) == {"clean": 2, "fork": 1}
    require_exact(trace, model, turns)
    assert trace.trainable
