from random import Random

import pytest

from sandlot import Ask, Score, Task, environment
from sandlot.core.errors import ConfigError
from sandlot.core.limits import Limits
from sandlot.core.types import End, Side
from sandlot.env.taskset import tasks_of
from sandlot.harness.tool_loop import ToolLoop
from sandlot.model.policy.scripted import scripted_policies
from sandlot.rollout import run_rollout
from sandlot.store.blobs import MemoryBlobs
from sandlot.wiring.parts import Grading, RolloutParts


async def played(env, model="golden", task=None):
    parts = RolloutParts(grading=Grading(env=env), policies=scripted_policies(model, env.marked.solution), harness=ToolLoop())
    return await run_rollout(parts, task or tasks_of(env)[0], run="test", rollout=0, blobs=MemoryBlobs())


def conversation(limits=None):
    @environment("twice", tasks=3, limits=limits)
    def ask(rng: Random):
        first = yield Ask("One?", golden="1")
        second = yield Ask(f"You said {first}. Two?", golden="2")
        yield Score(first == "1", name="first", points=1)
        yield Score(0.5 if second == "2" else 0, why=f"heard {second!r}", name="second", points=2)

    return ask


async def test_several_asks_are_several_turns_and_several_scores_several_checks():
    trace = await played(conversation())
    assert [node.message.text for node in trace.nodes] == ["One?", "1", "You said 1. Two?", "2"]
    score = trace.outcome.score
    assert (str(score), [check.id for check in score.checks], score.checks[1].evidence) == (
        "2/3",
        ["first", "second"],
        "heard '2'",
    )


def stepwise(limits=None):
    @environment("stepwise", tasks=1, limits=limits)
    def ask(rng: Random):
        for number in (1, 2, 3):
            answer = yield Ask(f"Say {number}.", golden=str(number))
            yield Score(answer == str(number), points=number)

    return ask


async def test_a_score_after_every_answer_counts_and_the_next_question_is_asked():
    trace = await played(stepwise())
    assert [node.message.text for node in trace.nodes] == ["Say 1.", "1", "Say 2.", "2", "Say 3.", "3"]
    assert (trace.end, str(trace.outcome.score)) == (End.DONE, "6/6")
    assert [check.id for check in trace.outcome.score.checks] == ["score", "score-2", "score-3"]


async def test_an_agent_that_is_right_once_gets_the_points_of_that_answer():
    trace = await played(stepwise(), "constant:2")
    assert (trace.num_turns, str(trace.outcome.score)) == (3, "2/6")


async def test_an_agent_stopped_between_scores_keeps_those_it_has():
    trace = await played(stepwise(Limits(turns=2)))
    assert (trace.end, str(trace.outcome.score)) == (End.TURN_LIMIT, "3/6")


async def test_an_agent_stopped_before_its_last_answer_is_graded_on_what_it_left():
    trace = await played(conversation(Limits(turns=1)))
    assert (trace.end, str(trace.outcome.score)) == (End.TURN_LIMIT, "1/3")


async def test_raising_before_the_first_ask_is_the_environments_failure():
    @environment("broken", tasks=1)
    def ask(rng):
        1 / 0  # noqa: B018
        yield Ask("?", golden="")
        yield Score(True)

    assert (await played(ask, "noop")).outcome.side is Side.ENVIRONMENT


async def test_raising_after_the_first_answer_is_the_graders_failure():
    @environment("broken", tasks=1)
    def ask(rng):
        answer = yield Ask("?", golden="1")
        yield Score(int(answer) > 0)

    assert (await played(ask, "constant:not a number")).outcome.side is Side.GRADER


@pytest.mark.parametrize("value", [2.0, -0.1, float("nan"), "yes", None])
async def test_a_score_that_is_no_score_is_the_graders_failure(value):
    @environment("odd", tasks=1)
    def ask(rng):
        yield Ask("?", golden="1")
        yield Score(value)

    trace = await played(ask)
    assert trace.outcome.side is Side.GRADER
    assert repr(value) in trace.outcome.message


async def test_ending_without_a_score_is_the_graders_failure():
    @environment("mute", tasks=1)
    def ask(rng):
        yield Ask("?", golden="1")

    assert (await played(ask)).outcome.kind == "no_score"


async def test_yielding_something_else_is_told():
    @environment("odd", tasks=1)
    def ask(rng):
        yield "What is 1+1?"

    trace = await played(ask, "noop")
    assert trace.outcome.side is Side.ENVIRONMENT
    assert "yield `Ask(prompt)`" in trace.outcome.message


async def test_an_ask_without_golden_cannot_be_played_by_the_golden_agent():
    @environment("open", tasks=1)
    def ask(rng):
        yield Ask("?")
        yield Score(True)

    assert "no `golden`" in (await played(ask)).outcome.message
    assert (await played(ask, "noop")).reward == 1.0


async def test_every_task_has_a_seed_of_its_own_and_keeps_it():
    @environment("dice", tasks=5)
    def ask(rng):
        yield Ask(str(rng.random()), golden="")
        yield Score(True)

    prompts = [[(await played(ask, task=task)).nodes[0].message.text for task in tasks_of(ask)] for _ in range(2)]
    assert prompts[0] == prompts[1]
    assert len(set(prompts[0])) == 5


async def test_tools_may_be_given():
    def add(a: int, b: int) -> int:
        """Add."""
        return a + b

    @environment("sums", tasks=1, tools=[add])
    def ask(rng):
        yield Ask("?", golden="x")
        yield Score(True)

    assert [tool.spec.name for tool in ask.marked.tools] == ["add"]


def test_a_number_of_tasks_that_is_none_is_refused():
    with pytest.raises(ConfigError, match="tasks=0"):
        environment("none", tasks=0)


def test_tasks_are_named_after_the_environment():
    assert [task.id for task in tasks_of(conversation())] == ["twice-0", "twice-1", "twice-2"]
    assert isinstance(tasks_of(conversation())[0], Task)


def test_distinct_tasks_ask_different_things():
    @environment("few", tasks=8, distinct=True)
    def ask(rng):
        yield Ask(f"What is {rng.randrange(12)} + 1?")
        yield Score(value=True)

    prompts = [next(ask.marked.grade.__self__.start(task)).prompt for task in tasks_of(ask)]
    assert len(prompts) == 8
    assert len(set(prompts)) == 8


def test_more_distinct_tasks_than_there_are_is_refused():
    @environment("fewer", tasks=9, distinct=True)
    def ask(rng):
        yield Ask(f"What is {rng.randrange(3)} + 1?")
        yield Score(value=True)

    with pytest.raises(ConfigError, match="give 3 different first questions, and 9 tasks"):
        tasks_of(ask)
