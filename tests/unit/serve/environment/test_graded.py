"""What a client that plays a served environment learns of its result."""

import pytest

from sandlot.core.task import Task
from sandlot.core.trace import text_message
from sandlot.core.types import Role
from sandlot.env.environment import Environment
from sandlot.serve.environment.graded import GradedTask
from sandlot.wiring.parts import Grading

TASK = Task("one", prompt="Say hello.")


def desk(check=lambda evidence: "hello" in evidence.answer):
    env = Environment("desk")
    env.check(points=2, id="greets", tags=["style"])(check)
    env.check(points=1, id="no_secret_word", requires=["greets"])(lambda evidence: "xyzzy" not in evidence.answer)
    env.check(points=1, id="hidden_trap", requires=["never"])(lambda evidence: True)
    env.check(points=1, id="never")(lambda evidence: False)
    return env


async def finished(env, **options) -> str:
    task = GradedTask(Grading(env=env), TASK, **options)
    async with task.open() as session:
        await session.reset()
        await session.step(text_message(Role.ASSISTANT, "hello"))
        return await task.finish_text(session)


async def test_by_default_a_client_learns_the_score_and_no_check():
    assert await finished(desk()) == "score 3/5"


async def test_the_author_chooses_how_much_a_client_learns():
    assert await finished(desk(), feedback="none") == ""
    assert await finished(desk(), feedback="tags") == "score 3/5\n2/2 style"
    lines = (await finished(desk(), feedback="checks")).split("\n")
    assert lines == ["score 3/5", "met 2/2 greets", "met 1/1 no_secret_word", "suppressed 0/1 hidden_trap", "not_met 0/1 never"]


@pytest.mark.parametrize("feedback", ["none", "score", "tags"])
async def test_a_failed_check_does_not_name_itself_to_a_client(feedback):
    def crashes(evidence):
        raise ValueError("expected the key 42")

    said = await finished(desk(crashes), feedback=feedback)
    assert said == "This rollout has no score: grader failed (crash)"
    assert "42" in await finished(desk(crashes), feedback="checks")
