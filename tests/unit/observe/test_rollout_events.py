"""What a rollout emits: its turns, its tool calls and its score, whatever harness plays it."""

from dataclasses import replace

from sandlot.core.task import Task
from sandlot.env.environment import Environment
from sandlot.harness.tool_loop import ToolLoop
from sandlot.model.policy.scripted import scripted_policies
from sandlot.observe.events import AgentEnded, RolloutGraded, RunEvent, ToolCalled, TurnTaken, WorldOpened
from sandlot.rollout import run_rollout
from sandlot.store.blobs import MemoryBlobs
from sandlot.wiring.parts import Grading, RolloutParts

TASK = Task("one", prompt="Say yes.")


def quiz() -> Environment:
    env = Environment("quiz")

    @env.check(points=2)
    def right(evidence, task):
        return evidence.answer == "yes"

    @env.tool
    async def look() -> str:
        """Look."""
        return "nothing to see"

    @env.solution
    async def solve(agent, task):
        await agent.call("look")
        await agent.call("no_such_tool" * 100)
        await agent.say("yes")

    return env


async def events_of(env: Environment) -> list[RunEvent]:
    got: list[RunEvent] = []
    parts = RolloutParts(grading=Grading(env), policies=scripted_policies("golden", env.marked.solution), harness=ToolLoop())
    await run_rollout(replace(parts, sink=got.append), TASK, run="r", rollout=3, blobs=MemoryBlobs())
    return got


async def test_turns_calls_and_score_come_in_the_order_they_happen() -> None:
    events = await events_of(quiz())
    kinds = [type(event) for event in events]
    assert kinds == [WorldOpened, TurnTaken, ToolCalled, TurnTaken, ToolCalled, TurnTaken, AgentEnded, RolloutGraded]
    assert all((event.run, event.task, event.rollout) == ("r", "one", 3) for event in events)
    turns = [event for event in events if isinstance(event, TurnTaken)]
    assert [event.turn for event in turns] == [1, 2, 3]
    look, unknown = (event for event in events if isinstance(event, ToolCalled))
    assert (look.name, look.turn, look.error) == ("look", 1, False)
    assert (len(unknown.name), unknown.turn, unknown.error) == (200, 2, True)
    graded = events[-1]
    assert isinstance(graded, RolloutGraded)
    assert (graded.score, graded.passed) == (1.0, True)


async def test_a_rollout_that_fails_has_no_score_to_emit() -> None:
    env = quiz()

    @env.check(points=1)
    def broken(evidence, task):
        raise ValueError("no")

    assert not [event for event in await events_of(env) if isinstance(event, RolloutGraded)]
