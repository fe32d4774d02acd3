"""Grading stored evidence again: the same function as the first time, so differences are the rubric's, not the world's."""

from collections.abc import AsyncGenerator

import msgspec

from sandlot.env.environment import Environment
from sandlot.env.taskset import tasks_of
from sandlot.errors import ConfigError
from sandlot.ports import Backend, Judge
from sandlot.rollout import grade_trace, recorded
from sandlot.rubric import Score
from sandlot.run.results import Run
from sandlot.trace import Failed, Outcome, Scored, Trace
from sandlot.wiring.parts import Grading


class Regraded(msgspec.Struct, frozen=True, kw_only=True):
    """One rollout's outcome, before and now."""

    task: str
    rollout: int
    before: Outcome
    now: Outcome

    @property
    def same(self) -> bool:
        """True if every check came out as it did, to the bit."""
        return self.before == self.now

    @property
    def changed_checks(self) -> list[str]:
        """Checks that came out otherwise, were added or are gone."""
        before, now = _checks(self.before), _checks(self.now)
        return sorted(name for name in before.keys() | now.keys() if before.get(name) != now.get(name))


async def regrade(
    run: Run, env: Environment, *, judge: Judge | None = None, rubric: str | None = None, backend: Backend | None = None
) -> AsyncGenerator[Regraded]:
    """Every rollout that left evidence, graded again. Rollouts that broke before grading have nothing to grade."""
    tasks = {task.id: task for task in tasks_of(env)}
    grading = Grading(env=env, judge=judge, rubric=rubric or run.manifest.config.rubric, backend=backend)
    for trace in run:
        if trace.evidence is None or trace.outcome is None:
            continue
        if trace.task not in tasks:
            raise ConfigError(
                f"environment `{env.name}` no longer has task `{trace.task}`; load the version the run was made with"
            )
        again = Trace(
            run=trace.run,
            task=trace.task,
            rollout=trace.rollout,
            seed=trace.seed,
            nodes=trace.nodes,
            end=trace.end,
            evidence=trace.evidence,
        )
        with recorded(again):
            again.outcome = Scored(await grade_trace(grading, tasks[trace.task], again, run.reader.blobs))
        assert again.outcome is not None
        yield Regraded(task=trace.task, rollout=trace.rollout, before=trace.outcome, now=again.outcome)


def _checks(outcome: Outcome) -> dict[str, float]:
    score: Score | None = outcome.score if isinstance(outcome, Scored) else None
    if score is None:
        return {"": -1.0} if isinstance(outcome, Failed) else {}
    return {check.id: check.value for check in score.checks}
