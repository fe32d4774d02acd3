"""A turn that nothing grades, or that accepts near misses, is found; a conversation that is graded whole is not blamed."""

from functools import partial
from random import Random

import pytest

from drive.in_process import case_of
from sandlot import Agent, Environment, Evidence, Task, World
from sandlot.audit.finding import Confidence
from sandlot.audit.probes.scripted.turns import PROBES


def quiz(reads: str) -> Environment:
    """Two questions, one after the other."""
    env = Environment("quiz", state=dict)

    @env.tasks
    def tasks(rng: Random):
        for at in range(4):
            yield Task(f"quiz-{at}", prompt=f"What is {at} + 20?", key={"first": str(at + 20), "second": str(at + 45)})

    @env.user
    def reply(world: World, text: str) -> str | None:
        world.state.setdefault("said", []).append(text.strip())
        return "And 25 more than that?" if len(world.state["said"]) == 1 else None

    @env.check(points=1)
    def both(evidence: Evidence, task: Task) -> bool:
        first, second = (*evidence.state.get("said", ()), "", "")[:2]
        if reads == "last":
            return second == task.key["second"]
        if reads == "loosely":
            return first.strip("-") == task.key["first"] and second == task.key["second"]
        return [first, second] == [task.key["first"], task.key["second"]]

    @env.solution
    async def solve(agent: Agent, task: Task) -> None:
        await agent.say(task.key["first"])
        await agent.say(task.key["second"])

    return env


@pytest.mark.parametrize(("reads", "codes"), [("last", {"D21.turn"}), ("loosely", {"D22.near"}), ("both", set())])
async def test_each_turn_of_a_conversation_is_varied(reads, codes):
    (probe,) = PROBES
    found = await probe.look(await case_of(partial(quiz, reads)))
    assert {each.code for each in found if each.standing is Confidence.CONFIRMED} == codes
    assert len(found) == len(codes)
