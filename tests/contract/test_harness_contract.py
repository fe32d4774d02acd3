"""What every harness promises: an end, a whole trace, and nothing swallowed."""

import pytest

from sandlot.core.errors import ModelError
from sandlot.core.limits import Limits
from sandlot.core.task import Task
from sandlot.core.trace import Node, Trace
from sandlot.core.types import End, Role
from sandlot.env.environment import Environment
from sandlot.env.session import open_session
from sandlot.harness.tool_loop import ToolLoop
from sandlot.model.policy.scripted import scripted_policies

TASK = Task("one", prompt="Knock twice.")


class Plain:
    """The ten-line harness of the guides."""

    name = "plain"

    async def play(self, session, policy, trace):
        step, leaf = await session.reset(), None
        while True:
            for message in step.messages:
                leaf = trace.append(Node(message=message, parent=leaf))
            if step.end is not None:
                return step.end
            leaf = trace.append(await policy.turn(trace, leaf, session.tools))
            step = await session.step(trace.nodes[leaf].message)


def door() -> Environment:
    env = Environment("door", limits=Limits(turns=5))

    @env.tool
    def knock(world) -> str:
        """Knock."""
        return "who is there?"

    return env


async def knock_twice(agent, task):
    await agent.call("knock")
    await agent.call("knock")
    await agent.say("done")


@pytest.fixture(params=[ToolLoop, Plain], ids=lambda kind: kind.__name__)
def harness(request):
    return request.param()


async def played(harness, model, solution=None):
    trace = Trace(run="r", task="one", rollout=0, seed=0)
    async with open_session(door(), TASK) as session, scripted_policies(model, solution).policy(TASK, 7) as policy:
        return await harness.play(session, policy, trace), trace


async def test_the_whole_conversation_is_one_path(harness):
    end, trace = await played(harness, "golden", knock_twice)
    assert end is End.DONE
    assert [node.message.role for node in trace.path()] == [Role.USER, *[Role.ASSISTANT, Role.TOOL] * 2, Role.ASSISTANT]
    assert [node.sampled for node in trace.nodes] == [False, True, False, True, False, True]
    assert [node.parent for node in trace.nodes] == [None, 0, 1, 2, 3, 4]


async def test_the_sessions_end_is_the_end(harness):
    end, trace = await played(harness, "loop")
    assert end is End.TURN_LIMIT
    assert trace.num_turns == 5


async def test_a_policy_that_fails_is_not_swallowed(harness):
    with pytest.raises((ModelError, RuntimeError)):
        await played(harness, "crash")


def test_it_has_a_name_for_the_fingerprint(harness):
    assert harness.name
