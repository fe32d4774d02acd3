"""A small world with Gymnasium's interface and one flaw if it is asked for; it needs no Gymnasium."""

WALKS = """
import os
import random
import time

try:
    from ground import SIZE
except ImportError:
    SIZE = 40


class Discrete:
    def __init__(self, n): self.n, self.rng = n, random.Random(0)
    def seed(self, number): self.rng = random.Random(number)
    def sample(self): return self.rng.randrange(self.n)
    def contains(self, value): return isinstance(value, int) and 0 <= value < self.n


ONE = Discrete(3)
COUNT = [0]
SHARED = {"at": 0}


class Walk:
    reward_range = (-1.0, 1.0)
    def __init__(self, flaw=""):
        self.flaw, self.kept = flaw, 0
        self.action_space, self.observation_space = Discrete(3), Discrete(60)
        if flaw == "one space": self.action_space = ONE
        if flaw == "old": self.reset = lambda: 0
    def reset(self, seed=None, options=None):
        self.rng = random if self.flaw == "unseeded" else random.Random(seed)
        self.at = self.rng.randrange(SIZE) + self.aside()
        self.steps = 0
        SHARED["at"] = self.at
        return self.at if self.flaw == "bare" else (self.at, {})
    def aside(self):
        if self.flaw == "counts": COUNT[0] += 1
        return {
            "counts": COUNT[0] % 7, "keeps": self.kept % 7, "hashes": hash("here") % 11, "dated": int(time.time()) // 86400 % 7,
            "placed": len(os.environ.get("TZ", "")) % 7,
        }.get(self.flaw, 0)
    def step(self, action):
        if not self.action_space.contains(action) and self.flaw != "anything": raise ValueError(f"no action {action!r}")
        if self.flaw == "refuses" and action == 2: raise KeyError(action)
        if self.flaw == "hangs": time.sleep(600)
        if self.flaw == "exits": os._exit(3)
        self.kept += 1
        self.steps += 1
        if self.flaw == "shares": self.at = SHARED["at"]
        move = (action if isinstance(action, int) else 1) % 3
        right = move == self.at % 3
        self.at = min(49, self.at + 1 + move % 2)
        SHARED["at"] = self.at
        leaning = float(move == 1)
        paid = {"leans": leaning, "nan": float("nan"), "large": 7.0, "pays": 1.0, "backwards": -1.0 if right else 0.5}
        reward = paid.get(self.flaw, float(right))
        done = self.steps == 10
        if self.flaw == "outside": self.at += 100
        if self.flaw == "four": return self.at, reward, done, {}
        return self.at, reward, 1 if self.flaw == "number" else done, False, {}
    def close(self): pass


def walk_on(env):
    return lambda observation: observation % 3


def stumble(env):
    def choose(observation): raise ValueError("lost the way")
    return choose


def lean(env):
    return lambda observation: 1


def leave(env):
    return lambda observation: "home"
"""
