"""A loop of Gymnasium's or PettingZoo's kind drives our environments. The libraries are stand-ins of a few lines."""

import sys

import pytest

import sandlot
from fakes.gyms import gyms_stand_in
from sandlot import Environment, Limits, Persona, Task, World
from sandlot.core.errors import AuthorError, ConfigError


@pytest.fixture(scope="module", autouse=True)
def libraries():
    with gyms_stand_in():
        yield


def dial(*, broken=False, turns=4, talks=False):
    """A dial to be turned to five."""
    env = Environment("dial", limits=Limits(turns=turns), state=dict, on_crash="fail")

    @env.tasks
    def tasks(rng):
        for number in range(8):
            yield Task(f"dial-{number}", prompt="Turn the dial to five. It shows 0.")

    @env.tool
    async def turn(world: World, by: int) -> str:
        """Turn the dial and read it."""
        if broken:
            raise OSError("the dial is gone")
        world.state["value"] = world.state.get("value", 0) + by
        return f"The dial shows {world.state['value']}."

    @env.check(points=1)
    def shows_five(evidence, task):
        return evidence.state.get("value") == 5

    if talks:

        @env.persona
        def persona(task):
            return Persona(who="You are Ada.")

    return env


@pytest.fixture
def made():
    opened = []

    def make(*given, to=sandlot.to_gym, **options):
        opened.append(to(*given, **options))
        return opened[-1]

    yield make
    for each in opened:
        each.close()


def called(arguments: str, text: str = "") -> dict[str, object]:
    return {"text": text, "calls": ({"name": "turn", "arguments": arguments},)}


DONE = {"text": "done", "calls": ()}


def test_the_score_is_the_reward_of_the_last_step(made):
    env = made(dial(), render_mode="ansi")
    seen, info = env.reset(seed=0)
    assert (seen, [tool.name for tool in env.tools]) == ("user: Turn the dial to five. It shows 0.", ["turn"])
    assert env.step(called('{"by": 5}')) == ("tool: The dial shows 5.", 0.0, False, False, info)
    assert env.step(DONE) == ("", 1.0, True, False, info | {"end": "done"})
    assert [line.split(":")[0] for line in env.render().splitlines()][-1] == "assistant"
    assert env.trace.reward == 1.0
    with pytest.raises(sys.modules["gymnasium"].error.ResetNeeded, match="before `reset`, or after the end"):
        env.step(DONE)


def test_a_limit_truncates_and_is_graded(made):
    env = made(dial(turns=2))
    env.reset(seed=0)
    env.step(called('{"by": 5}'))
    seen, reward, terminated, truncated, info = env.step(called('{"by": 0}'))
    assert (seen, reward, terminated, truncated) == ("tool: The dial shows 5.", 1.0, False, True)
    assert info["end"] == "turn_limit"
    assert env.render() is None


def test_a_seed_draws_the_same_task_and_the_options_name_one(made):
    env = made(dial())
    drawn = [env.reset(seed=seed)[1]["task"] for seed in (1, 1, 2, 3, 4, 5)]
    assert drawn[0] == drawn[1]
    assert len(set(drawn)) > 1
    assert env.reset(options={"task": drawn[3]})[1] == {"task": drawn[3]}
    with pytest.raises(ConfigError, match="no option 'tsk'; it has 'task'"):
        env.reset(options={"tsk": drawn[3]})


@pytest.mark.parametrize(
    ("arguments", "heard"), [("[not json", "tool: error: "), ("", "tool: error: "), ("[1]", "tool: error: ")]
)
def test_malformed_arguments_reach_the_agent_as_an_error_of_the_tool(made, arguments, heard):
    env = made(dial())
    env.reset(seed=0)
    assert env.step(called(arguments))[0].startswith(heard)


def test_a_failure_is_raised_and_the_next_reset_works(made):
    env = made(dial(broken=True))
    env.reset(seed=0)
    with pytest.raises(AuthorError, match="the dial is gone"):
        env.step(called('{"by": 5}'))
    assert env.reset(seed=0)[0].startswith("user: ")


def test_an_action_that_is_none_is_refused(made):
    env = made(dial())
    env.reset(seed=0)
    invalid = sys.modules["gymnasium"].error.InvalidAction
    for action in ("done", {"text": "done"}, {"text": 3, "calls": ()}, {"text": "", "calls": ({"name": "turn"},)}):
        with pytest.raises(invalid):
            env.step(action)
    with pytest.raises(ConfigError, match="use 'ansi' or None"):
        made(dial(), render_mode="human")


def test_without_tools_an_action_is_a_text_of_a_length(made):
    from sandlot.interop.gyms.views import AnyText

    env = made("arithmetic")
    env.reset(seed=0)
    assert env.step("7")[2] is True
    assert "x" * 10 in AnyText(10)
    assert "x" * 11 not in AnyText(10)
    assert (AnyText(10) == AnyText(10), AnyText(10) == AnyText(11), repr(AnyText(10))) == (True, False, "AnyText(10)")


def test_a_list_of_turns_is_numbered_and_what_is_read_must_be_in_its_space(made):
    from sandlot.interop.gyms.views import DiscreteView

    def read(text):
        return int(text.rstrip(".").rsplit(" ", 1)[-1]) if text else 0

    turns = [("turn", {"by": 5}), ("turn", {"by": -1}), "done"]
    env = made(dial(), view=DiscreteView(turns, observe=read, observation_space=range(6)))
    assert env.reset(seed=0)[0] == 0
    assert env.step(0)[:2] == (5, 0.0)
    with pytest.raises(sys.modules["gymnasium"].error.InvalidAction):
        env.step(3)
    assert env.step(2)[1:3] == (1.0, True)
    env.reset(seed=0)
    with pytest.raises(ConfigError, match=r"returned -1, which is not in range\(0, 6\), for the text 'tool: The dial shows -1"):
        env.step(1)
    for wrong in ([], [3], [("turn", "x")], [("turn",)]):
        with pytest.raises(ConfigError, match="has no turns" if not wrong else "turn 0 is"):
            DiscreteView(wrong, observe=read, observation_space=range(6))


def test_the_agent_and_the_user_take_turns_and_both_end_with_the_score_of_the_agent(made):
    env = made(dial(talks=True), to=sandlot.to_pettingzoo)
    env.reset(seed=0)
    assert (env.possible_agents, env.agent_selection) == (["agent", "user"], "agent")
    assert env.last()[0] == {"text": "user: Turn the dial to five. It shows 0."}
    env.step(called('{"by": 5}'))
    assert env.observe("agent") == {"text": "tool: The dial shows 5."}
    env.step({"text": "Is it right?", "calls": ()})
    assert env.agent_selection == "user"
    assert env.last()[0]["text"].endswith("Is it right?")
    with pytest.raises(ConfigError, match="of `user` is not in AnyText"):
        env.step(3)
    env.step("Yes.")
    assert env.last()[:2] == ({"text": "user: Yes."}, 0.0)
    while not any((*env.terminations.values(), *env.truncations.values())):
        env.step(DONE if env.agent_selection == "agent" else "...")
    assert env.rewards == {"agent": 1.0, "user": 0}
    assert (env.truncations, env.terminations) == ({"agent": True, "user": True}, {"agent": False, "user": False})
    assert env.infos["user"]["end"] == "turn_limit"
    for _ in range(2):
        env.step(None)
    assert env.agents == []


def test_one_agent_alone_is_terminated_when_the_task_is_over(made):
    env = made(dial(), to=sandlot.to_pettingzoo, render_mode="ansi")
    env.reset(seed=3, options={"task": "dial-0"})
    assert env.infos == {"agent": {"task": "dial-0"}}
    env.step(DONE)
    assert env.last()[1:4] == (0.0, True, False)
    assert env.render().splitlines()[-1].startswith("assistant: done")
