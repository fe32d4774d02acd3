"""Grading stored evidence again, with the same function as the first time: differences come from the rubric, not the world."""

import copy
import dataclasses
from collections.abc import AsyncGenerator, Iterable
from pathlib import Path
from random import Random

import anyio
import msgspec

from sandlot.core.errors import ConfigError
from sandlot.core.rubric import Rubric, RubricScore
from sandlot.core.trace import Failed, Outcome, Scored, Trace
from sandlot.core.types import derive_seed
from sandlot.env.environment import Environment
from sandlot.env.fingerprint import environment_fingerprint
from sandlot.env.load import load
from sandlot.env.taskset import tasks_of
from sandlot.rollout import grade_trace, record_outcome
from sandlot.run.collector import JUDGE_CACHE
from sandlot.run.results import Run
from sandlot.wiring.config import judge_config
from sandlot.wiring.parts import Grading, open_grading


class Regraded(msgspec.Struct, frozen=True, kw_only=True):
    """One rollout's outcome, before and now."""

    task: str
    rollout: int
    before: Outcome
    now: Outcome

    @property
    def same(self) -> bool:
        """True if every check has exactly the same result. Whether a judge's verdict came from the cache makes no difference."""
        return _without_cache_mark(self.before) == _without_cache_mark(self.now)

    @property
    def changed_checks(self) -> list[str]:
        """Checks whose result differs, or that were added or removed."""
        before, now = _checks(self.before), _checks(self.now)
        return sorted(name for name in before.keys() | now.keys() if before.get(name) != now.get(name))


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """What regrading a run found."""

    run: str
    same_environment: bool
    """True if the environment has the fingerprint it had in the run."""
    regraded: int
    same: int
    changed: tuple[Regraded, ...]


async def regrade_run(path: Path, env: str | None = None, judge: str | None = None, rubric: str | None = None) -> Report:
    """Grade a run's evidence again with its environment as it is now; nothing is written."""
    run = Run(path)
    environment = load(env or run.manifest.source).in_image(run.manifest.config.image)
    asked = run.manifest.config
    async with open_grading(
        environment,
        judge=judge_config(judge),
        rubric=rubric or asked.rubric,
        sandbox=asked.sandbox,
        cache=path.parent / JUDGE_CACHE,
    ) as grading:
        again = [item async for item in regrade(run, grading)]
    return Report(
        run=str(path),
        same_environment=environment_fingerprint(environment, build=False) == run.manifest.fingerprints.environment,
        regraded=len(again),
        same=sum(item.same for item in again),
        changed=tuple(item for item in again if not item.same),
    )


async def regrade(run: Run, grading: Grading, traces: Iterable[Trace] | None = None) -> AsyncGenerator[Regraded]:
    """Every rollout that left evidence, or those given, graded again. Failures before grading left nothing to grade."""
    tasks = {task.id: task for task in tasks_of(grading.env)}
    for trace in run if traces is None else traces:
        if trace.evidence is None or trace.outcome is None:
            continue
        if trace.task not in tasks:
            raise ConfigError(
                f"environment `{grading.env.name}` no longer has task `{trace.task}`; load the version the run was made with"
            )
        before, trace.outcome = trace.outcome, None
        with record_outcome(trace):
            trace.outcome = Scored(await grade_trace(grading, tasks[trace.task], trace, run.reader.blobs))
        assert trace.outcome is not None, "`record_outcome` always leaves an outcome"
        yield Regraded(task=trace.task, rollout=trace.rollout, before=before, now=trace.outcome)


class RubricTrial(msgspec.Struct, frozen=True, kw_only=True):
    """Stored rollouts, graded with a rubric that is not saved yet."""

    run: str
    same_environment: bool
    """True if the environment, apart from the rubric that is tried, has the fingerprint it had in the run."""
    graded: tuple[Regraded, ...]
    of: int
    """Scored rollouts of the run that this rubric grades; a sample of them is graded."""
    stopped: bool
    """True if the time was over before all of the sample was graded."""


async def try_rubric(
    run: Run, env: Environment, name: str, rubric: Rubric, *, judge: str | None = None, most: int = 100, seconds: float = 60.0
) -> RubricTrial:
    """Grade a sample of a run's stored rollouts with a changed rubric of its environment; nothing is written.

    - `env`: the environment, loaded; it is not changed.
    - `name`: the rubric of the environment that `rubric` stands in for.
    - `judge`: the grader model; needed if the rubric has judge checks.
    - `most`, `seconds`: maximum number of rollouts, and time for all of them.
    """
    asked = run.manifest.config
    tried = copy.copy(env).in_image(asked.image)
    tried.marked = dataclasses.replace(tried.marked, rubrics={**env.marked.rubrics, name: rubric})
    graded_by = {task.id for task in tasks_of(env) if (asked.rubric or task.rubric) == name}
    table = run.reader.table(["task", "rollout", "outcome"])
    rows = zip(*(table.column(each).to_pylist() for each in ("task", "rollout", "outcome")), strict=True)
    keys = [(task, rollout) for task, rollout, outcome in rows if outcome == "scored" and task in graded_by]
    sample = Random(derive_seed("rubric trial", name)).sample(keys, min(most, len(keys)))  # noqa: S311 - a repeatable sample
    graded: list[Regraded] = []
    with anyio.move_on_after(seconds) as scope:
        async with open_grading(
            tried,
            judge=judge_config(judge),
            rubric=asked.rubric,
            sandbox=asked.sandbox,
            cache=run.path.parent / JUDGE_CACHE,
        ) as grading:
            async for item in regrade(run, grading, run.reader.traces_of(sample)):
                graded.append(item)  # noqa: PERF401 - what was graded before the time was over counts
    return RubricTrial(
        run=str(run.path),
        same_environment=environment_fingerprint(env, build=False) == run.manifest.fingerprints.environment,
        graded=tuple(graded),
        of=len(keys),
        stopped=scope.cancelled_caught,
    )


def describe_outcome(outcome: Outcome) -> str:
    """An outcome in a word or two."""
    if isinstance(outcome, Scored):
        return str(outcome.score)
    return f"failed ({outcome.side}, {outcome.kind})" if isinstance(outcome, Failed) else "cancelled"


def _checks(outcome: Outcome) -> dict[str, float | str]:
    if not isinstance(outcome, Scored):
        return {"(outcome)": describe_outcome(outcome)}
    return {check.id: check.value for check in outcome.score.checks}


def _without_cache_mark(outcome: Outcome) -> Outcome | RubricScore:
    """The outcome without the mark of verdicts that came from the cache."""
    if not isinstance(outcome, Scored):
        return outcome
    checks = tuple(
        msgspec.structs.replace(check, judge=msgspec.structs.replace(check.judge, cached=False)) if check.judge else check
        for check in outcome.score.checks
    )
    return msgspec.structs.replace(outcome.score, checks=checks)
