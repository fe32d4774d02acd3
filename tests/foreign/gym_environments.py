"""Real Gymnasium environments keep their promises, and one that is bent on purpose does not: `make test-gym`."""

import sys
import tempfile
from pathlib import Path

import anyio

from sandlot.audit.case import Case
from sandlot.audit.foreign.gym import PROBES, GymConfig, open_gym

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
"""


async def audited(config: GymConfig) -> set[str]:
    async with open_gym(config) as subject:
        about = await subject.describe()
        case = Case(subject=subject, description=about, tasks=about.tasks)
        return {finding.code for probe in PROBES for finding in await probe.look(case)}


async def main(python: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "bent.py").write_text(BENT)
        wanted = {"CartPole-v1": set(), "FrozenLake-v1": set(), "Taxi-v3": set(), "MountainCarContinuous-v0": set()}
        for name in wanted:
            codes = await audited(GymConfig(env=name, seeds=4, python=python, path=(folder,)))
            print(name, sorted(codes) or "sound")  # noqa: T201 - what a person waits for
            assert codes <= {"D08.outside"}, codes
        codes = await audited(GymConfig(env="bent:make", seeds=4, python=python, path=(folder,)))
        print("bent", sorted(codes))  # noqa: T201 - as above
        assert {"D05.leak", "D05.reset"} & codes


anyio.run(main, sys.argv[1])
