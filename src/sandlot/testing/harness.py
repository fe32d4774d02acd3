"""What every harness promises: an end, a whole trace, and nothing swallowed.

Your fixture is `harness`: your harness.
"""

import pytest

from sandlot.core.errors import ModelError
from sandlot.core.limits import Limits
from sandlot.core.ports.session import Harness
from sandlot.core.ports.world import World
from sandlot.core.task import Task
from sandlot.core.trace import Trace
from sandlot.core.types import End, Role
from sandlot.env.environment import Environment
from sandlot.env.session import open_session
from sandlot.model.policy.scripted import scripted_policies
from sandlot.model.policy.solution import Agent, Solution
from sandlot.testing.running import anyio_backend as anyio_backend
from sandlot.testing.running import pytestmark as pytestmark

_TASK = Task("one", prompt="Knock twice.")


def _door() -> Environment:
    env = Environment("door", limits=Limits(turns=5))

    @env.tool
    def knock(world: World) -> str:  # pyright: ignore[reportUnusedFunction] - marked
        """Knock."""
        del world
        return "who is there?"

    return env


async def _knock_twice(agent: Agent, task: Task) -> None:
    del task
    await agent.call("knock")
    await agent.call("knock")
    await agent.say("done")


async def _played(harness: Harness, model: str, solution: Solution | None = None) -> tuple[End, Trace]:
    trace = Trace(run="r", task="one", rollout=0, seed=0)
    async with open_session(_door(), _TASK) as session, scripted_policies(model, solution).policy(_TASK, 7) as policy:
        return await harness.play(session, policy, trace), trace


async def test_the_whole_conversation_is_one_path(harness: Harness) -> None:
    end, trace = await _played(harness, "golden", _knock_twice)
    assert end is End.DONE
    assert [node.message.role for node in trace.path()] == [Role.USER, *[Role.ASSISTANT, Role.TOOL] * 2, Role.ASSISTANT]
    assert [node.sampled for node in trace.nodes] == [False, True, False, True, False, True]
    assert [node.parent for node in trace.nodes] == [None, 0, 1, 2, 3, 4]


async def test_the_sessions_end_is_the_end(harness: Harness) -> None:
    end, trace = await _played(harness, "loop")
    assert end is End.TURN_LIMIT
    assert trace.num_turns == 5


async def test_a_policy_that_fails_is_not_swallowed(harness: Harness) -> None:
    with pytest.raises((ModelError, RuntimeError)):
        await _played(harness, "crash")


def test_it_has_a_name_for_the_fingerprint(harness: Harness) -> None:
    assert harness.name
