"""A player's turns, written in a model's tokens, are the demonstration the renderer would make of the whole conversation."""

import numpy as np
import pytest

from builders.model_folders import FAMILIES
from fakes.token_models import ForcedModel
from sandlot.analysis.tokens.faults import structure_faults
from sandlot.core.ports.model import Sampling
from sandlot.core.ports.world import ToolSpec
from sandlot.core.task import Task
from sandlot.core.tokens import token_path, unpacked_ids
from sandlot.core.trace import Message, Node, ToolResult, Trace, text_message
from sandlot.core.types import Role
from sandlot.model.policy.demonstrated import DemonstratedPolicies
from sandlot.model.policy.scripted import scripted_policies
from sandlot.model.policy.tokens import token_policies
from sandlot.model.render.open import open_renderer

TASK = Task("t", prompt="?")
LOOK = ToolSpec(name="look_up", description="", parameters={"type": "object", "properties": {"word": {"type": "string"}}})


async def solve(agent, task):
    found = await agent.call("look_up", word="x")
    await agent.say(f"It is {found}.")


@pytest.fixture(scope="module", params=["rookie", "smollm2", "qwen3", "llama3"])
def renderer(request, tmp_path_factory):
    return open_renderer(FAMILIES[request.param](tmp_path_factory.mktemp(request.param)))


async def played(policies) -> Trace:
    trace = Trace(run="r", task="t", rollout=0, seed=1)
    trace.append(Node(message=text_message(Role.SYSTEM, "Be brief.")))
    leaf = trace.append(Node(message=text_message(Role.USER, "What is x?"), parent=0))
    async with policies.policy(TASK, seed=5) as policy:
        leaf = trace.append(await policy.turn(trace, leaf, (LOOK,)))
        (call,) = trace.nodes[leaf].message.calls
        answer = Message(role=Role.TOOL, parts=(ToolResult(call.id, "found"),))
        leaf = trace.append(Node(message=answer, parent=leaf))
        trace.append(await policy.turn(trace, leaf, (LOOK,)))
    return trace


async def test_a_golden_solution_becomes_the_demonstration_of_its_conversation(renderer):
    trace = await played(DemonstratedPolicies(scripted_policies("golden", solve), renderer, 7))
    path = token_path(trace)
    whole = renderer.demonstration([node.message for node in trace.path()], (LOOK,))
    assert (path.ids.tolist(), path.mask.tolist()) == (whole.ids, whole.mask)
    said = path.mask == 1
    assert set(path.versions[said].tolist()) == {7}
    assert np.all(path.logprobs[said] == 0)
    assert trace.trainable
    assert structure_faults(trace) == []
    assert trace.answer == "It is found."


async def test_it_stands_where_the_model_would_have_said_the_same(renderer):
    shown = await played(DemonstratedPolicies(scripted_policies("golden", solve), renderer, 0))
    words = [unpacked_ids(node.tokens.ids) for node in shown.turns()]
    sampled = await played(token_policies(ForcedModel(words), renderer, Sampling()))
    assert token_path(sampled).ids.tolist() == token_path(shown).ids.tolist()
    assert [node.context for node in sampled.turns()] == [node.context for node in shown.turns()]
