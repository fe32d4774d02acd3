"""Stable-Baselines3 trains on one of our environments: `make test-interop KIND=sb3`."""

import numpy as np
from gymnasium import spaces
from stable_baselines3 import PPO
from stable_baselines3.common.env_checker import check_env
from stable_baselines3.common.evaluation import evaluate_policy

import sandlot
from sandlot import Environment, Limits, Task, World
from sandlot.interop.gyms.views import DiscreteView


def thermostat():
    """A room to be brought to its target temperature: the agent reads a number and heats, cools or stops."""
    env = Environment("thermostat", limits=Limits(turns=12))

    @env.tasks
    def tasks(rng):
        for number in range(40):
            start = rng.choice([-3, -2, -1, 1, 2, 3])
            yield Task(f"room-{number}", prompt=f"Bring the room to its target. Off by {start}", data={"off": start})

    @env.setup
    def setup(world: World, task: Task):
        world.state["off"] = task.data["off"]

    @env.tool
    def heat(world: World) -> str:
        """Make it one degree warmer."""
        world.state["off"] += 1
        return f"Off by {world.state['off']}"

    @env.tool
    def cool(world: World) -> str:
        """Make it one degree colder."""
        world.state["off"] -= 1
        return f"Off by {world.state['off']}"

    @env.check(points=1)
    def nearer(evidence, task):
        return max(0.0, 1 - abs(evidence.state["off"]) / 4)

    @env.check(points=3)
    def on_target_and_stopped(evidence, task):
        return evidence.state["off"] == 0 and evidence.answer == "done"

    return env


def observe(text):
    off = float(text.rsplit(" ", 1)[-1]) if text else 0.0
    return np.array([np.clip(off / 10, -2, 2)], dtype=np.float32)


def classic(split):
    view = DiscreteView(
        [("heat", {}), ("cool", {}), "done"], observe=observe, observation_space=spaces.Box(-2, 2, (1,), np.float32)
    )
    return sandlot.to_gym(thermostat(), view=view, split=split)


def test_ppo_learns_on_the_train_tasks_and_solves_the_held_out_ones():
    env, exam = classic("train"), classic("heldout")
    check_env(env)
    agent = PPO("MlpPolicy", env, n_steps=512, batch_size=64, learning_rate=3e-3, ent_coef=0.02, gamma=0.97, seed=0, device="cpu")
    before, _ = evaluate_policy(agent, exam, n_eval_episodes=30, warn=False)
    agent.learn(total_timesteps=8_000)
    after, _ = evaluate_policy(agent, exam, n_eval_episodes=30, warn=False)
    env.close()
    exam.close()
    print(f"held-out score of PPO: {before:.2f} before, {after:.2f} after 8,000 steps")  # noqa: T201 - the figure
    assert before < 0.5
    assert after > 0.95
