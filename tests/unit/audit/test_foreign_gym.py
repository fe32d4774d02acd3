"""A Gymnasium environment as a subject: the promises every one makes, kept and broken. No Gymnasium is needed here."""

import sys
import textwrap

import pytest

from sandlot.audit.case import Case
from sandlot.audit.foreign.gym import PROBES, GymConfig, open_gym
from sandlot.audit.foreign.worker import Budget
from sandlot.audit.subject import Call, Script, Take
from sandlot.errors import ConfigError

CODE = """
import random

class Discrete:
    def __init__(self, n): self.n, self.rng = n, random.Random(0)
    def seed(self, number): self.rng = random.Random(number)
    def sample(self): return self.rng.randrange(self.n)
    def contains(self, value): return isinstance(value, int) and 0 <= value < self.n

COUNT = [0]

class Walk:
    reward_range = (0.0, 1.0)
    def __init__(self, flaw=""):
        self.flaw, self.kept = flaw, 0
        self.action_space, self.observation_space = Discrete(3), Discrete(50)
    def reset(self, seed=None, options=None):
        self.rng = random if self.flaw == "unseeded" else random.Random(seed)
        if self.flaw == "counts": COUNT[0] += 1
        self.at = self.rng.randrange(40) + (COUNT[0] if self.flaw == "counts" else 0) + (self.kept if self.flaw == "keeps" else 0)
        return self.at if self.flaw == "bare" else (self.at, {})
    def step(self, action):
        if not self.action_space.contains(action) and self.flaw != "anything": raise ValueError(f"no action {action!r}")
        if self.flaw == "refuses" and action == 2: raise KeyError(action)
        self.kept += 1
        self.at = min(49, self.at + (action if isinstance(action, int) else 1) % 3)
        reward = {"nan": float("nan"), "large": 7.0}.get(self.flaw, self.at / 49)
        done = self.at == 49
        if self.flaw == "outside": self.at += 100
        if self.flaw == "four": return self.at, reward, done, {}
        return self.at, reward, 1 if self.flaw == "number" else done, False, {}
    def close(self): pass
"""


def config(tmp_path, flaw: str) -> GymConfig:
    (tmp_path / "walks.py").write_text(textwrap.dedent(CODE))
    return GymConfig(
        env="walks:Walk",
        arguments={"flaw": flaw},
        seeds=4,
        steps=30,
        python=sys.executable,
        path=(str(tmp_path),),
        budget=Budget(trial_s=5),
    )


@pytest.mark.parametrize(
    ("flaw", "code"),
    [
        ("", None),
        ("unseeded", "D05.reset"),
        ("counts", "D05.reset"),
        ("keeps", "D05.leak"),
        ("bare", "D08.shape"),
        ("four", "D08.shape"),
        ("number", "D08.shape"),
        ("refuses", "D08.action"),
        ("outside", "D08.observation"),
        ("nan", "D06.nan"),
        ("large", "D06.range"),
        ("anything", "D08.outside"),
    ],
)
async def test_a_broken_promise_is_found_and_a_kept_one_is_not(tmp_path, flaw, code):
    async with open_gym(config(tmp_path, flaw)) as subject:
        about = await subject.describe()
        case = Case(subject=subject, description=about, tasks=about.tasks)
        found = [finding for probe in PROBES for finding in await probe.look(case)]
    assert about.kind == "gymnasium"
    assert {finding.code for finding in found} == ({code} if code else set()) | (
        {"D05.leak"} if flaw in {"unseeded", "counts"} else set()
    )


async def test_a_script_of_actions_is_played_as_written(tmp_path):
    script = Script(name="walk", turns=((Call("act", {"action": 1}),), (Call("act", {"action": 0}),)))
    async with open_gym(config(tmp_path, "")) as subject:
        (trial,) = await subject.take([Take(task="seed-2", play=script)])
    assert [step["action"] for step in trial.trace.evidence.state["steps"]] == ["1", "0"]


async def test_an_environment_that_cannot_be_made_is_the_users_to_mend(tmp_path):
    (tmp_path / "walks.py").write_text("def make(): raise OSError('no such level')")
    async with open_gym(GymConfig(env="walks:make", python=sys.executable, path=(str(tmp_path),))) as subject:
        with pytest.raises(ConfigError, match="no such level"):
            await subject.describe()
