"""What every `ports.Policies` promises. New ones join by adding how they are opened to `OPENED`."""

from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import anyio
import msgspec
import pytest

from builders.model_folders import FAMILIES
from fakes.endpoint import FakeEndpoint, says
from fakes.token_models import TinyModel
from sandlot.core.ports.model import Sampling
from sandlot.core.ports.world import ToolSpec
from sandlot.core.task import Task
from sandlot.core.trace import Message, Node, ToolResult, Trace, text_message
from sandlot.core.types import Role
from sandlot.model.endpoint.chat import OpenAIConfig, open_openai
from sandlot.model.policy.chat import chat_policies
from sandlot.model.policy.replay import replay_policies
from sandlot.model.policy.scripted import scripted_policies
from sandlot.model.policy.tokens import token_policies
from sandlot.model.render.open import open_renderer

TASK = Task("t", prompt="2+2?")
ADD = ToolSpec(name="add", description="Adds.", parameters={"type": "object", "properties": {"x": {"type": "integer"}}})


async def solve(agent, task):
    await agent.call("add", x=1)
    await agent.say("done")


@asynccontextmanager
async def speaking(calls):
    async with (
        FakeEndpoint(then=lambda request: says(f"seed {request.body['seed']}")) as endpoint,
        open_openai(OpenAIConfig(model="m", url=endpoint.url), environ={}) as model,
    ):
        yield chat_policies(model, Sampling(), calls=calls)


@asynccontextmanager
async def by_script(spec):
    yield scripted_policies(spec, solve)


@asynccontextmanager
async def from_recording():
    recorded = opening()
    recorded.append(Node(message=text_message(Role.ASSISTANT, "recorded"), parent=0, sampled=True, stop="stop", model="old"))
    yield replay_policies(lambda task, seed: recorded, then=scripted_policies("echo"))


@asynccontextmanager
async def by_tokens():
    with TemporaryDirectory() as folder:
        yield token_policies(TinyModel(), open_renderer(FAMILIES["rookie"](Path(folder))), Sampling(max_tokens=8))


SCRIPTED = ["golden", "noop", "refuse", "echo", "constant:x", "random", "mixed:0.5", "malformed", "loop", "flood"]
OPENED = {
    "spoken": lambda: speaking("native"),
    "spoken in text": lambda: speaking("text"),
    "replayed": from_recording,
    "rendered": by_tokens,
    **{f"scripted:{spec}": lambda spec=spec: by_script(spec) for spec in SCRIPTED},
}


@pytest.fixture(params=OPENED)
async def policies(request):
    async with OPENED[request.param]() as opened:
        yield opened


def opening() -> Trace:
    trace = Trace(run="r", task="t", rollout=0, seed=0)
    trace.append(Node(message=text_message(Role.USER, TASK.prompt)))
    return trace


async def take(policies, seed: int, num_turns: int) -> Trace:
    """A plain loop: take a turn, answer every call or say something, go on."""
    trace = opening()
    async with policies.policy(TASK, seed) as policy:
        leaf = 0
        for _ in range(num_turns):
            with anyio.fail_after(5):
                node = await policy.turn(trace, leaf, [ADD])
            leaf = trace.append(node)
            results = tuple(ToolResult(call.id, "4") for call in node.message.calls)
            answer = Message(role=Role.TOOL, parts=results) if results else text_message(Role.USER, "go on")
            leaf = trace.append(Node(message=answer, parent=leaf))
    return trace


async def test_a_turn_is_a_sampled_assistant_node_below_the_leaf(policies):
    trace = await take(policies, 1, 3)
    for index, node in enumerate(trace.nodes):
        if node.sampled:
            assert node.message.role is Role.ASSISTANT
            assert node.parent == index - 1
            assert node.stop in {"stop", "length", "calls", "refusal"}
            assert (node.stop == "calls") == bool(node.message.calls)
            assert node.model
            assert node.seconds >= 0
    assert trace.num_turns == 3


async def test_a_turn_appends_nothing_itself(policies):
    trace = opening()
    async with policies.policy(TASK, 1) as policy:
        await policy.turn(trace, 0, [ADD])
    assert len(trace.nodes) == 1


async def test_a_turn_can_be_stored(policies):
    trace = await take(policies, 1, 3)
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(trace), type=Trace) == trace


async def test_the_same_seed_takes_the_same_turns(policies):
    first, second = [await take(policies, 5, 3) for _ in range(2)]
    assert [node.message for node in first.nodes] == [node.message for node in second.nodes]


async def test_rollouts_live_side_by_side(policies):
    async with AsyncExitStack() as stack:
        opened = [await stack.enter_async_context(policies.policy(TASK, 5)) for _ in range(5)]
        nodes = [await policy.turn(opening(), 0, [ADD]) for policy in opened]
    assert len({msgspec.json.encode(node.message) for node in nodes}) == 1


async def test_a_policy_nobody_asks_is_closed_at_once(policies):
    with anyio.fail_after(5):
        async with policies.policy(TASK, 1):
            pass


async def test_the_name_is_a_line_of_text(policies):
    assert policies.name
    assert policies.name.isprintable()
