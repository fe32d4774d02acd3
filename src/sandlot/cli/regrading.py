"""Regrading with a person watching: counts, and the rollouts whose outcome changed."""

from contextlib import AsyncExitStack
from pathlib import Path

import msgspec

from sandlot.env.fingerprint import environment_fingerprint
from sandlot.env.load import load
from sandlot.run.regrade import Regraded, regrade
from sandlot.run.results import Run
from sandlot.run.run import JUDGE_CACHE
from sandlot.trace import Failed, Outcome, Scored
from sandlot.wiring.models import open_judge
from sandlot.wiring.parts import ModelConfig, open_backend


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """What regrading a run found."""

    run: str
    same_environment: bool
    """True if the environment is byte for byte the one the run was made with."""
    regraded: int
    same: int
    changed: tuple[Regraded, ...]

    def show(self) -> None:
        """For a person."""
        print(f"{self.run}: {self.regraded} rollouts graded again, {self.same} the same, {len(self.changed)} changed")
        if not self.same_environment:
            print("the environment has changed since the run was made")
        for item in self.changed[:50]:
            what = ", ".join(name for name in item.changed_checks[:6] if name)
            print(f"  {item.task}/{item.rollout}: {_word(item.before)} -> {_word(item.now)}" + (f"  ({what})" if what else ""))


async def regrade_run(path: Path, env: str | None, judge: str | None, rubric: str | None) -> Report:
    """Grade a run's evidence again with its environment as it is now."""
    run = Run(path)
    environment = load(env or run.manifest.source)
    async with AsyncExitStack() as stack:
        judging = (
            await stack.enter_async_context(open_judge(ModelConfig(spec=judge), path.parent / JUDGE_CACHE)) if judge else None
        )
        backend = None
        if environment.image is not None:
            backend = await stack.enter_async_context(open_backend(run.manifest.config.sandbox))
        again = [item async for item in regrade(run, environment, judge=judging, rubric=rubric, backend=backend)]
    return Report(
        run=str(path),
        same_environment=environment_fingerprint(environment, build=False) == run.manifest.fingerprints.environment,
        regraded=len(again),
        same=sum(item.same for item in again),
        changed=tuple(item for item in again if not item.same),
    )


def _word(outcome: Outcome) -> str:
    if isinstance(outcome, Scored):
        return str(outcome.score)
    return f"failed ({outcome.side}, {outcome.kind})" if isinstance(outcome, Failed) else "cancelled"
