"""Rollouts that a synchronous loop drives, without Gymnasium. tests/foreign/interop/gymnasium_conformance.py has the real one."""

import pytest

import sandlot
from sandlot import Environment, Limits, Persona, Task, World
from sandlot.core.errors import AuthorError, ConfigError, GradeError
from sandlot.core.trace import Text, ToolCall
from sandlot.core.types import Split
from sandlot.interop.gyms.rollouts import GymOptions, GymRollouts, observation_text, require_pending, require_scored


def counter(*, broken="", talks=False, on_crash="grade"):
    env = Environment("counter", limits=Limits(turns=3), state=lambda: {"count": 0}, on_crash=on_crash)

    @env.tasks
    def tasks(rng):
        for number in range(10):
            yield Task(f"count-{number}", prompt="Count to two.")

    @env.setup
    def setup(world: World, task: Task):
        if broken == "setup":
            raise OSError("no disk")

    @env.tool
    def add(world: World) -> str:
        """Count one."""
        if broken == "tool":
            raise OSError("no fingers")
        world.state["count"] += 1
        return str(world.state["count"])

    @env.check(points=1)
    def two(evidence, task):
        if broken == "check":
            raise OSError("no eyes")
        return evidence.state["count"] == 2

    if talks:

        @env.persona
        def persona(task):
            return Persona(who="You are Ada.")

    return env


@pytest.fixture
def begun():
    opened = []

    def begin(env, **options):
        rollouts = GymRollouts(env, GymOptions(), "test")
        opened.append(rollouts)
        return rollouts.begin(rollouts.tasks[0], **options)

    yield begin
    for rollouts in opened:
        rollouts.close()


CALL = (ToolCall("c", "add"),)


def test_a_rollout_is_driven_to_its_score(begun):
    driven = begun(counter())
    pending = require_pending(driven, driven.opening())
    assert observation_text(pending.messages, None) == "user: Count to two."
    assert [tool.name for tool in pending.tools] == ["add"]
    assert observation_text(driven.move(CALL).messages, None) == "tool: 1"
    driven.move(CALL)
    assert driven.move((Text("done"),)) is None
    assert require_scored(driven.trace()) == 1.0


def test_an_end_says_whether_the_task_was_over_or_a_limit_was_reached(begun):
    driven = begun(counter())
    driven.opening()
    while driven.move(CALL) is not None:
        pass
    assert (driven.trace().end, driven.trace().end.terminated) == ("turn_limit", False)
    assert require_scored(driven.trace()) == 0.0


@pytest.mark.parametrize(("broken", "error"), [("setup", AuthorError), ("tool", AuthorError), ("check", GradeError)])
def test_a_failure_is_raised_and_has_no_reward(broken, error, begun):
    driven = begun(counter(broken=broken, on_crash="fail"))
    if driven.opening() is not None:
        assert driven.move(CALL if broken == "tool" else (Text("done"),)) is None
    with pytest.raises(error):
        require_pending(driven, None)
    with pytest.raises(error):
        require_scored(driven.trace())


def test_a_tool_that_crashes_is_an_error_to_the_agent_and_the_rollout_is_graded(begun):
    driven = begun(counter(broken="tool"))
    driven.opening()
    seen = observation_text(driven.move(CALL).messages, None)
    assert "`add` failed: it has an error of its own" in seen
    assert "no fingers" not in seen
    assert driven.move((Text("done"),)) is None
    assert require_scored(driven.trace()) == 0.0


def test_the_loop_plays_the_user_too(begun):
    driven = begun(counter(talks=True), user=True)
    assert driven.opening().seat == "agent"
    asked = driven.move((Text("What is your name?"),))
    assert asked.seat == "user"
    assert "You are Ada." in observation_text(asked.messages, None)
    answered = driven.move((Text("Ada."),))
    assert (answered.seat, observation_text(answered.messages, None)) == ("agent", "user: Ada.")


def test_tasks_are_those_of_the_split_or_those_named():
    train = GymRollouts(counter(), GymOptions(), "test").tasks
    heldout = GymRollouts(counter(), GymOptions(split=Split.HELDOUT), "test").tasks
    assert len(train) + len(heldout) == 10
    assert [task.id for task in GymRollouts(counter(), GymOptions(tasks=["count-3"]), "test").tasks] == ["count-3"]
    with pytest.raises(ConfigError, match="give a list"):
        GymRollouts(counter(), GymOptions(tasks="count-3"), "test")


def test_without_gymnasium_the_command_that_installs_it_is_named():
    with pytest.raises(ConfigError, match="pip install"):
        sandlot.to_gym(counter())
    with pytest.raises(ConfigError, match="pip install"):
        sandlot.to_pettingzoo(counter())
