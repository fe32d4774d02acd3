"""What every `Policies` promises, and the policies that it opens.

Your fixture is `policies`: your policies, which are asked `2+2?` with a tool `add`. What they answer is theirs.
"""

from contextlib import AsyncExitStack

import anyio
import msgspec

from sandlot.core.ports.session import Policies
from sandlot.core.ports.world import ToolSpec
from sandlot.core.task import Task
from sandlot.core.trace import Message, Node, ToolResult, Trace, text_message
from sandlot.core.types import Role
from sandlot.testing.running import anyio_backend as anyio_backend
from sandlot.testing.running import pytestmark as pytestmark

_TURN_S = 30.0


_TASK = Task("t", prompt="2+2?")
_ADD = ToolSpec(name="add", description="Adds.", parameters={"type": "object", "properties": {"x": {"type": "integer"}}})


def _opening() -> Trace:
    trace = Trace(run="r", task="t", rollout=0, seed=0)
    trace.append(Node(message=text_message(Role.USER, _TASK.prompt)))
    return trace


async def _take(policies: Policies, seed: int, num_turns: int) -> Trace:
    """A plain loop: take a turn, answer every call or say something, go on."""
    trace = _opening()
    async with policies.policy(_TASK, seed) as policy:
        leaf = 0
        for _ in range(num_turns):
            with anyio.fail_after(_TURN_S):
                node = await policy.turn(trace, leaf, [_ADD])
            leaf = trace.append(node)
            results = tuple(ToolResult(call.id, "4") for call in node.message.calls)
            answer = Message(role=Role.TOOL, parts=results) if results else text_message(Role.USER, "go on")
            leaf = trace.append(Node(message=answer, parent=leaf))
    return trace


async def test_a_turn_is_a_sampled_assistant_node_below_the_leaf(policies: Policies) -> None:
    trace = await _take(policies, 1, 3)
    for index, node in enumerate(trace.nodes):
        if node.sampled:
            assert node.message.role is Role.ASSISTANT
            assert node.parent == index - 1
            assert node.stop in {"stop", "length", "calls", "refusal"}
            assert (node.stop == "calls") == bool(node.message.calls)
            assert node.model
            assert node.seconds >= 0
    assert trace.num_turns == 3


async def test_a_turn_appends_nothing_itself(policies: Policies) -> None:
    trace = _opening()
    async with policies.policy(_TASK, 1) as policy:
        await policy.turn(trace, 0, [_ADD])
    assert len(trace.nodes) == 1


async def test_a_turn_can_be_stored(policies: Policies) -> None:
    trace = await _take(policies, 1, 3)
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(trace), type=Trace) == trace


async def test_the_same_seed_takes_the_same_turns(policies: Policies) -> None:
    first, second = [await _take(policies, 5, 3) for _ in range(2)]
    assert [node.message for node in first.nodes] == [node.message for node in second.nodes]


async def test_rollouts_live_side_by_side(policies: Policies) -> None:
    async with AsyncExitStack() as stack:
        opened = [await stack.enter_async_context(policies.policy(_TASK, 5)) for _ in range(5)]
        nodes = [await policy.turn(_opening(), 0, [_ADD]) for policy in opened]
    assert len({msgspec.json.encode(node.message) for node in nodes}) == 1


async def test_a_policy_nobody_asks_is_closed_at_once(policies: Policies) -> None:
    with anyio.fail_after(_TURN_S):
        async with policies.policy(_TASK, 1):
            pass


async def test_the_name_is_a_line_of_text(policies: Policies) -> None:
    assert policies.name
    assert policies.name.isprintable()
