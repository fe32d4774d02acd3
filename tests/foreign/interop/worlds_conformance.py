"""Worlds of Gymnasium and PettingZoo as ours, compared with the worlds themselves: `make test-interop KIND=gymnasium`."""

import json
import sys
from pathlib import Path

import anyio
import gymnasium
import numpy as np
import pytest

import sandlot
from sandlot.core.errors import ConfigError
from sandlot.core.trace import Failed, Message, ToolCall
from sandlot.core.types import Role
from sandlot.env.importing import import_environment

sys.path.insert(0, str(Path(__file__).parent))


def taken(source, tmp_path, kind="gym"):
    import_environment(kind, source, tmp_path / "world")
    return sandlot.load(tmp_path / "world")


def play(env, task, calls):
    """The results of these calls, one per turn, and the final state."""

    async def run():
        async with env.session(task) as session:
            await session.reset()
            results = []
            for number, (name, arguments) in enumerate(calls):
                action = Message(role=Role.ASSISTANT, parts=(ToolCall(f"c{number}", name, arguments),))
                results += (await session.step(action)).messages[0].results
            return results, session.world.state

    return anyio.run(run)


@pytest.mark.parametrize(
    "world",
    ["CartPole-v1", "Pendulum-v1", "FrozenLake-v1", "Taxi-v4", "Blackjack-v1", "MountainCarContinuous-v0", "CliffWalking-v1"],
)
def test_the_same_actions_give_the_same_observations_rewards_and_end(world, tmp_path):
    env = taken(f"{world}?score=-5000..5000&seeds=3", tmp_path)
    for seed in range(3):
        real = gymnasium.make(world)
        seen, _ = real.reset(seed=seed)
        real.action_space.seed(seed)
        actions, expected, rewards, terminated, truncated = [], [seen], [], False, False
        while not (terminated or truncated) and len(actions) < 20:
            actions.append(real.action_space.sample())
            seen, reward, terminated, truncated, _ = real.step(actions[-1])
            expected.append(seen)
            rewards.append(float(reward))
        calls = [("look", {}), *(("step", {"action": np.asarray(action).tolist()}) for action in actions)]
        results, state = play(env, f"seed-{seed}", calls)
        shown = [json.loads(result.text.rsplit("\n", 1)[-1]) for result in results]
        assert shown == [json.loads(json.dumps(np.asarray(each).tolist())) for each in expected]
        assert (state["rewards"], state["terminated"], state["truncated"]) == (rewards, terminated, truncated)


ACTION = {"gear": 1, "throttle": [0.5, -1], "switches": [1, 2], "horn": "hey", "pair": [1, [0, 1]]}


def test_every_kind_of_space_becomes_a_tool_and_an_observation(tmp_path):
    env = taken("gym_samples:Everything?score=-3..3&seeds=2", tmp_path)
    results, state = play(env, "seed-0", [("look", {}), ("step", ACTION), ("step", ACTION), ("step", ACTION), ("step", ACTION)])
    assert json.loads(results[0].text).keys() == {"grid", "place", "said"}
    assert json.loads(results[1].text.splitlines()[-1])["said"] == "hey"
    assert results[3].text.startswith("Reward 0.5. The world has ended: truncated.")
    assert results[4].error
    assert (state["return"], state["terminated"], state["truncated"]) == (1.5, False, True)


@pytest.mark.parametrize(
    "wrong",
    [
        {"gear": 0},
        {"gear": True},
        {"gear": "1"},
        {"gear": 2**70},
        {"throttle": [0.5]},
        {"throttle": [2.0, 0.0]},
        {"throttle": "fast"},
        {"throttle": [[0.5], [0.5]]},
        {"switches": [1.5, 1]},
        {"switches": [0, 3]},
        {"horn": "too long"},
        {"horn": 5},
        {"pair": [1]},
        {"pair": {"a": 1}},
        {"more": 1},
    ],
    ids=str,
)
def test_an_action_outside_the_space_is_an_error_that_the_agent_reads(wrong, tmp_path):
    env = taken("gym_samples:Everything?score=-3..3&seeds=1", tmp_path)
    (result,), state = play(env, "seed-0", [("step", ACTION | wrong)])
    assert result.error
    assert state["rewards"] == []


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("CartPole-v1", "does not say its range"),
        ("CartPole-v1?score=5..5", "is no range"),
        ("CartPole-v1?score=0..500&view=smell", "the view `smell` is unknown"),
        ("gym_samples:Forgetful?score=0..1", "another world after a second reset"),
        ("gym_samples:Graphic?score=0..1", "Graph has no form in JSON"),
        ("gym_samples:endless?score=0..500", "one rollout is one episode"),
        ("NoSuchWorld-v9?score=0..1", "NoSuchWorld"),
    ],
)
def test_what_cannot_be_kept_is_refused_with_the_reason(source, reason, tmp_path):
    with pytest.raises(sandlot.SandlotError, match=reason):
        taken(source, tmp_path)
    assert not (tmp_path / "world").exists()


def test_a_return_outside_the_declared_scale_is_a_failure_and_no_reward(tmp_path):
    env = taken("CartPole-v1?score=0..100&seeds=2&policy=gym_samples:hold", tmp_path)
    run = sandlot.run(env, "scripted:golden", runs=tmp_path / "runs")
    outcomes = [run.trace(f"seed-{seed}").outcome for seed in range(2)]
    assert {type(outcome) for outcome in outcomes} == {Failed}
    assert "outside the declared 0..100" in outcomes[0].message


def test_a_reward_that_is_no_number_is_the_worlds_failure(tmp_path):
    env = taken("gym_samples:Broken?score=-3..3&seeds=1", tmp_path)
    with pytest.raises(sandlot.SandlotError, match="no finite number"):
        play(env, "seed-0", [("step", ACTION)])


def test_a_classic_policy_plays_as_the_golden_solution(tmp_path):
    env = taken("CartPole-v1?score=0..500&seeds=3&policy=gym_samples:hold", tmp_path)
    assert sandlot.run(env, "scripted:golden", runs=tmp_path / "runs").summary().score.value == 1.0
    assert sandlot.run(env, "scripted:noop", runs=tmp_path / "runs").summary().score.value == 0.0


def test_views_show_text_and_pictures(tmp_path):
    drawn = taken("FrozenLake-v1?score=0..1&seeds=1&view=ansi", tmp_path / "a")
    (result,), _ = play(drawn, "seed-0", [("look", {})])
    assert "SFFF" in result.text.replace("\x1b[41mS\x1b[0m", "S")
    seen = taken("CartPole-v1?score=0..500&seeds=1&view=image", tmp_path / "b")
    assert seen.images == "require"
    (result,), _ = play(seen, "seed-0", [("look", {})])
    assert (result.images[0].width, result.images[0].height) == (600, 400)


def test_another_version_of_the_package_is_refused(tmp_path):
    taken("CartPole-v1?score=0..500&seeds=1", tmp_path)
    file = tmp_path / "world" / "world.py"
    file.write_text(file.read_text().replace(f"gymnasium=={gymnasium.__version__}", "gymnasium==0.0.1"))
    with pytest.raises(ConfigError, match="was imported with gymnasium"):
        play(sandlot.load(tmp_path / "world"), "seed-0", [("look", {})])


@pytest.mark.parametrize("world", ["classic.connect_four_v3", "classic.tictactoe_v3", "classic.rps_v2"])
def test_one_agent_of_a_pettingzoo_world_is_played_to_the_end(world, tmp_path):
    env = taken(f"{world}?score=-100..100&seeds=4", tmp_path, kind="pettingzoo")
    moves = [("look", {}), *[("step", {"action": n % (9 if "tic" in world else 3)}) for n in range(60)]]
    results, state = play(env, "seed-1", moves)
    again, same = play(env, "seed-1", moves)
    assert state == same
    assert state["rewards"]
    assert state["terminated"] or state["truncated"] or len(state["rewards"]) == 60
    assert [result.text for result in results] == [result.text for result in again]


def test_an_illegal_move_is_an_error_and_takes_no_step(tmp_path):
    env = taken("classic.tictactoe_v3?score=-1..1&seeds=1", tmp_path, kind="pettingzoo")
    results, state = play(env, "seed-0", [("step", {"action": 0}), ("step", {"action": 0})])
    assert not results[0].error
    assert results[1].error
    assert "legal actions" in results[1].text
    assert len(state["rewards"]) == 1
