"""Gymnasium and PettingZoo themselves on our environments: `make test-interop KIND=gymnasium`."""

import importlib
import re

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.utils.env_checker import check_env
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from pettingzoo.test import api_test, parallel_api_test, seed_test

import sandlot
from sandlot import Ask, Environment, Limits, Score, Task, World, environment
from sandlot.core.errors import AuthorError, ConfigError, GradeError
from sandlot.core.task import split_of
from sandlot.interop.exporting import export_environment
from sandlot.interop.gyms.views import DiscreteView

ARITHMETIC, RETURNS, HELPDESK = "environments/arithmetic", "environments/returns", "environments/helpdesk"


@environment("digits", tasks=8)
def digits(rng):
    answer = yield Ask(f"Say {rng.randrange(1000)}.")
    if answer == "break":
        raise OSError("the grader's disk is full")
    yield Score(answer.isdigit())


def dial(*, broken=False, turns=4):
    """A dial to be turned to five."""
    env = Environment("dial", limits=Limits(turns=turns))

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

    return env


def dial_view():
    return DiscreteView(
        [("turn", {"by": 1}), ("turn", {"by": -1}), "done"],
        observe=lambda text: np.array([float(text.rstrip(".").rsplit(" ", 1)[-1]) if text else 0.0], dtype=np.float32),
        observation_space=spaces.Box(-100, 100, (1,), np.float32),
    )


def called(name, arguments):
    return {"text": "", "calls": ({"name": name, "arguments": arguments},)}


@pytest.mark.parametrize("env", [ARITHMETIC, HELPDESK, digits, dial()], ids=["arithmetic", "helpdesk", "function", "tools"])
def test_gymnasiums_own_checker_accepts_it(env):
    made = sandlot.to_gym(env, render_mode="ansi")
    check_env(made, skip_render_check=False)
    made.close()


def test_the_discrete_view_passes_the_checker_too():
    made = sandlot.to_gym(dial(), view=dial_view())
    check_env(made)
    made.close()


def test_a_seed_draws_the_same_task_and_the_options_name_one():
    made = sandlot.to_gym(ARITHMETIC)
    drawn = [made.reset(seed=seed)[1]["task"] for seed in (1, 1, 2, 3, 4, 5)]
    assert drawn[0] == drawn[1]
    assert len(set(drawn)) > 1
    assert made.reset(options={"task": drawn[3]})[1] == {"task": drawn[3]}
    with pytest.raises(ConfigError, match="none of the"):
        made.reset(options={"task": "no-such"})
    made.close()


def test_the_score_is_the_reward_of_the_last_step():
    made = sandlot.to_gym(dial(), render_mode="ansi")
    made.reset(seed=0)
    assert made.tools[0].name == "turn"
    seen, reward, terminated, truncated, info = made.step(called("turn", '{"by": 5}'))
    assert (seen, reward, terminated, truncated) == ("tool: The dial shows 5.", 0.0, False, False)
    seen, reward, terminated, truncated, info = made.step({"text": "done", "calls": ()})
    assert (reward, terminated, truncated, info["end"]) == (1.0, True, False, "done")
    assert "assistant: done" in made.render()
    assert made.trace is not None
    with pytest.raises(gymnasium.error.ResetNeeded):
        made.step({"text": "more", "calls": ()})
    made.close()


def test_a_limit_truncates_and_is_graded():
    made = sandlot.to_gym(dial(turns=2))
    made.reset(seed=0)
    made.step(called("turn", '{"by": 5}'))
    seen, reward, terminated, truncated, info = made.step(called("turn", '{"by": 0}'))
    assert (seen, reward, terminated, truncated) == ("tool: The dial shows 5.", 1.0, False, True)
    assert info["end"] == "turn_limit"
    made.close()


def test_malformed_arguments_reach_the_agent_as_an_error_of_the_tool():
    made = sandlot.to_gym(dial())
    made.reset(seed=0)
    assert made.step(called("turn", "[not json"))[0].startswith("tool: error: ")
    made.close()


def test_failures_are_raised_and_the_next_reset_works():
    made = sandlot.to_gym(dial(broken=True))
    made.reset(seed=0)
    with pytest.raises(AuthorError, match="the dial is gone"):
        made.step(called("turn", '{"by": 5}'))
    made.reset(seed=0)
    made.close()
    graded = sandlot.to_gym(digits)
    graded.reset(seed=0)
    with pytest.raises(GradeError, match="disk is full"):
        graded.step("break")
    graded.close()


def test_an_action_outside_the_space_is_refused():
    made = sandlot.to_gym(dial(), view=dial_view())
    made.reset(seed=0)
    with pytest.raises(gymnasium.error.InvalidAction):
        made.step(7)
    made.close()


@pytest.mark.parametrize("mode", list(AutoresetMode))
def test_vectorised_with_every_autoreset_mode(mode):
    envs = SyncVectorEnv([lambda: sandlot.to_gym(dial(turns=2), view=dial_view()) for _ in range(3)], autoreset_mode=mode)
    envs.reset(seed=0)
    envs.step(np.array([0, 0, 2]))
    seen, _, _, cut, infos = envs.step(np.array([0, 0, 0])) if mode is not AutoresetMode.DISABLED else (None,) * 5
    if mode is AutoresetMode.NEXT_STEP:  # the third was reset in this step, the others reached their limit
        assert seen.tolist() == [[2.0], [2.0], [0.0]]
        assert cut.tolist() == [True, True, False]
    elif mode is AutoresetMode.SAME_STEP:  # all three ended or were reset already: the observation is a new rollout's
        assert seen.tolist()[:2] == [[0.0], [0.0]]
        assert infos["final_obs"][0].tolist() == [2.0]
    else:
        seen, _ = envs.reset(options={"reset_mask": np.array([False, False, True])})
        assert seen.tolist() == [[1.0], [1.0], [0.0]]
    envs.close()


@pytest.mark.parametrize("env", [ARITHMETIC, dial()], ids=["arithmetic", "tools"])
def test_pettingzoos_own_tests_accept_it(env):
    api_test(sandlot.to_pettingzoo(env), num_cycles=40)
    parallel_api_test(sandlot.to_pettingzoo(env, parallel=True), num_cycles=40)
    seed_test(lambda: sandlot.to_pettingzoo(env), num_cycles=10)


def test_a_user_that_a_model_plays_is_a_second_agent():
    api_test(sandlot.to_pettingzoo(RETURNS), num_cycles=30)
    parallel_api_test(sandlot.to_pettingzoo(RETURNS, parallel=True), num_cycles=30)
    made = sandlot.to_pettingzoo(RETURNS)
    made.reset(seed=0)
    assert made.agents == ["agent", "user"]
    made.step({"text": "What is your order number?", "calls": ()})
    assert made.agent_selection == "user"
    assert "What is your order number?" in made.observe("user")["text"]
    made.step("I do not know.")
    assert made.agent_selection == "agent"
    assert made.observe("agent") == {"text": "user: I do not know."}
    made.close()


def exported(kind, env, folder, monkeypatch):
    """The module of an exported package, as `pip install` would make it importable."""
    export_environment(kind, env, folder)
    monkeypatch.syspath_prepend(folder)
    return next(path.name for path in folder.iterdir() if path.is_dir())


def test_an_exported_package_is_made_by_gymnasium_itself(tmp_path, monkeypatch):
    module = exported("gymnasium", ARITHMETIC, tmp_path / "out", monkeypatch)
    tasks = {task.id: task for task in sandlot.tasks_of(sandlot.load(ARITHMETIC))}
    with gymnasium.make(f"{module}:sandlot/arithmetic-v0") as env:
        check_env(env.unwrapped, skip_render_check=True)
        for golden, score in ((True, 1.0), (False, 0.0)) * 3:
            question = env.reset()[0]
            right = eval(re.search(r"What is ([-+*/ 0-9]+)\?", question)[1])  # a sum of ours
            assert env.step(str(right) if golden else "")[1:4] == (score, True, False)
    with gymnasium.make(f"{module}:sandlot/arithmetic-v0", split="heldout") as env:
        held_out = {task for task in tasks if split_of(tasks[task]) == "heldout"}
        assert env.reset(seed=1)[1]["task"] in held_out


def test_an_exported_package_passes_pettingzoos_own_tests(tmp_path, monkeypatch):
    module = importlib.import_module(exported("pettingzoo", RETURNS, tmp_path / "out", monkeypatch))
    env = module.env()
    api_test(env, num_cycles=20)
    env.close()
    parallel = module.parallel_env()
    parallel_api_test(parallel, num_cycles=20)
    parallel.close()
