"""Worlds for tests/foreign/interop/worlds_conformance.py: one with every kind of space, and some that must be refused."""

import gymnasium
import numpy as np
from gymnasium import spaces


class Everything(gymnasium.Env):
    """Every kind of space in one. The reward is the throttle's first number."""

    observation_space = spaces.Dict(
        {
            "grid": spaces.Box(0, 9, (2, 3), np.int16),
            "place": spaces.Tuple((spaces.Discrete(4), spaces.MultiBinary(3))),
            "said": spaces.Text(8, min_length=0),
        }
    )
    action_space = spaces.Dict(
        {
            "gear": spaces.Discrete(3, start=1),
            "throttle": spaces.Box(-1.0, 1.0, (2,), np.float32),
            "switches": spaces.MultiDiscrete([2, 3]),
            "horn": spaces.Text(4, min_length=0),
            "pair": spaces.Tuple((spaces.Discrete(2), spaces.MultiBinary(2))),
        }
    )

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.steps = 0
        return self._seen(""), {}

    def step(self, action):
        assert action in self.action_space, action
        self.steps += 1
        return self._seen(action["horn"]), float(action["throttle"][0]), False, self.steps >= 3, {}

    def _seen(self, said):
        return {
            "grid": self.np_random.integers(0, 10, (2, 3)).astype(np.int16),
            "place": (np.int64(self.steps), np.ones(3, np.int8)),
            "said": said,
        }


class Forgetful(gymnasium.Env):
    """Ignores its seed."""

    observation_space = spaces.Box(0, 1, (1,), np.float64)
    action_space = spaces.Discrete(2)
    count = 0

    def reset(self, *, seed=None, options=None):
        Forgetful.count += 1
        return np.array([1 / Forgetful.count]), {}

    def step(self, action):
        return np.array([0.0]), 0.0, True, False, {}


class Graphic(Everything):
    """Acts with graphs."""

    action_space = spaces.Graph(spaces.Discrete(2), None)


class Broken(Everything):
    """Gives no number as a reward."""

    def step(self, action):
        return self._seen(""), float("nan"), False, False, {}


def endless():
    return gymnasium.wrappers.Autoreset(gymnasium.make("CartPole-v1"))


def hold(env):
    return lambda seen: int(seen[2] + 0.5 * seen[3] + 0.05 * seen[1] > 0)
