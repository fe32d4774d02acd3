"""Tic-tac-toe as one player sees it: we are player 1, the other one plays a seeded random legal move."""

import gymnasium
import numpy
from pettingzoo.classic import tictactoe_v3


class OnePlayer(gymnasium.Env):
    def __init__(self):
        self.env = tictactoe_v3.env()
        self.observation_space = gymnasium.spaces.MultiBinary([3, 3, 2])
        self.action_space = gymnasium.spaces.Discrete(9)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.env.reset(seed=seed)
        return self._seen(), {}

    def _seen(self):
        return self.env.observe("player_1")["observation"].astype(numpy.int8)

    def step(self, action):
        self.env.step(int(action))
        if not any(self.env.terminations.values()):
            free = numpy.flatnonzero(self.env.observe("player_2")["action_mask"])
            self.env.step(int(self.np_random.choice(free)))
        over = any(self.env.terminations.values())
        return self._seen(), float(self.env.rewards["player_1"] if over else 0), over, False, {}


def make():
    return OnePlayer()


LINES = [(0, 1, 2), (3, 4, 5), (6, 7, 8), (0, 3, 6), (1, 4, 7), (2, 5, 8), (0, 4, 8), (2, 4, 6)]


def solve(env):
    def act(seen):
        mine = {place for place in range(9) if seen.reshape(9, 2)[place, 0]}
        theirs = {place for place in range(9) if seen.reshape(9, 2)[place, 1]}
        free = [place for place in (4, 0, 2, 6, 8, 1, 3, 5, 7) if place not in mine | theirs]
        for side in (mine, theirs):
            for line in LINES:
                left = [place for place in line if place not in side]
                if len(left) == 1 and left[0] in free:
                    return left[0]
        return free[0]

    return act
