"""`sandlot audit --gym` on real Gymnasium environments: sound ones keep their promises, bent ones do not. `make test-gym`."""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

POLICIES = """
import numpy as np

def hold(env):
    return lambda seen: int(seen[2] + 0.5 * seen[3] + 0.05 * seen[1] > 0)

def swing(env):
    return lambda seen: np.array([1.0 if seen[1] > 0 else -1.0], dtype=np.float32)

def cross(env):
    path = iter([1, 1, 2, 1, 2, 2])  # down, down, right, down, right, right
    return lambda seen: next(path)

def flail(env):
    return lambda seen: 0
"""
BENT = """
import gymnasium

class Bent(gymnasium.Wrapper):
    count = 0
    def reset(self, **options):
        observation, info = self.env.reset(**options)
        Bent.count += 1
        return observation + 0.001 * Bent.count, info

def make():
    return Bent(gymnasium.make("CartPole-v1"))

class Flat(gymnasium.Wrapper):
    def step(self, action):
        observation, _, terminated, truncated, info = self.env.step(action)
        return observation, 1.0 if terminated or truncated else 0.0, terminated, truncated, info

def flat():
    return Flat(gymnasium.make("CartPole-v1"))
"""
SOUND = {
    "CartPole-v1": ("--solution", "policies:hold"),
    "MountainCarContinuous-v0": ("--solution", "policies:swing", "--steps", "999"),
    "FrozenLake-v1": ("--solution", "policies:cross", "--gym-argument", "is_slippery=false"),
}
UNSOLVED = ("Taxi-v3", "Blackjack-v1", "Pendulum-v1", "CliffWalking-v1")
"""No policy is named for these: INCOMPLETE, and nothing grave."""


def audited(folder: str, python: str, *words: str) -> dict:
    command = [sys.executable, "-m", "sandlot", "audit", "--python", python, "--json", *words]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300, check=False, env=os.environ)
    assert done.returncode in {0, 1, 3}, done.stderr
    found = json.loads(done.stdout)
    codes = sorted({each["code"] for each in found["findings"] if each["standing"] == "confirmed"})
    print(" ".join(words), found["verdict"], codes, flush=True)  # noqa: T201 - what a person waits for
    return {**found, "codes": codes, "exit": done.returncode}


def main(python: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "policies.py").write_text(POLICIES)
        Path(folder, "bent.py").write_text(BENT)
        for name, words in SOUND.items():
            found = audited(folder, python, "--gym", name, *words)
            assert (found["verdict"], found["exit"]) == ("SHIP", 0), found["layers"]
            assert set(found["codes"]) <= {"D08.outside"}
        for name in UNSOLVED:
            found = audited(folder, python, "--gym", name)
            assert (found["verdict"], found["exit"]) == ("INCOMPLETE", 3), found["findings"]
            assert set(found["codes"]) <= {"D08.outside"}
        found = audited(folder, python, "--gym", "bent:make", "--solution", "policies:hold")
        assert (found["verdict"], found["codes"]) == ("FIX", ["D05.reset"])
        found = audited(folder, python, "--gym", "bent:flat", "--solution", "policies:flail")
        assert (found["verdict"], found["codes"]) == ("FIX", ["D14.constant"])


main(sys.argv[1])
