"""The health of a run: every check, and one record of the results. `sandlot health RUN` prints it.

Most checks read only the rows of a run. Traces are read only for what agents did and saw, and only a seeded sample of them.
`quick_health` runs the checks that need rows only; every run ends with it.
"""

from collections.abc import Sequence
from pathlib import Path
from random import Random

from sandlot.analysis.health.crashes import crashes
from sandlot.analysis.health.drift import drift, halves, sides_between
from sandlot.analysis.health.failures import failures
from sandlot.analysis.health.features import Features, features_of
from sandlot.analysis.health.item import Health, HealthItem, HealthMark
from sandlot.analysis.health.latency import latency
from sandlot.analysis.health.resolution import resolution
from sandlot.analysis.health.sentinel import run_sentinel
from sandlot.analysis.health.successes import successes
from sandlot.analysis.health.surge import surge
from sandlot.analysis.health.survivors import survivors
from sandlot.analysis.health.timeouts import timeouts
from sandlot.core.concurrency.blocking import blocking
from sandlot.core.trace import Trace
from sandlot.core.trace_row import TraceRow
from sandlot.core.types import derive_seed
from sandlot.run.results import Run
from sandlot.store.columns import rows_of as decode_rows

_MOST_ROWS = 100_000
_TRACES = 600
"""Traces read for drift, both sides together."""
_REGRADES = 32
_REPLAYS = 8


async def health_async(
    run: Run | str | Path,
    *,
    against: Run | str | Path | None = None,
    traces: int = _TRACES,
    regrades: int = _REGRADES,
    replays: int = _REPLAYS,
    env: str | None = None,
    judge: str | None = None,
    seed: int = 0,
) -> Health:
    """Check a run for signs of a broken environment, and return the `Health`: one item per check, and a verdict.

    It blocks until the checks are done, also where an event loop is running (a notebook).

    - `run`: a `Run`, or the path of a run directory.
    - `against`: look for drift against this run instead of between the two halves of `run`.
    - `traces`: how many traces to read when looking for drift.
    - `regrades`: how many rollouts to grade again from their evidence; 0 grades none.
    - `replays`: how many rollouts to replay in fresh worlds; 0 replays none.
    - `env`: the environment. Default: where the run found it.
    - `judge`: the grader model for judge checks.
    - `seed`: seed for the random choices.

    ```python
    import sandlot

    run = sandlot.run("arithmetic", "scripted:golden", group=4)
    health = sandlot.health(run)
    print(health.verdict, {item.name: item.mark for item in health.items})
    ```
    """
    run, against = _opened(run), None if against is None else _opened(against)
    rows = rows_of(run, seed)
    opened, drifted = _drift(run, rows, against, traces, seed)
    items = [
        *failures(run.rows),
        *_of_rows(run, rows),
        drifted,
        surge(rows, run.path),
        successes(_draw_traces(run, [row for row in rows if row.passed], traces // 2, seed, "successes")),
        *await _sentinel(run, rows, regrades, replays, env, judge, seed),
    ]
    return Health(
        run=str(run.path),
        environment=run.manifest.environment,
        model=run.manifest.config.model.spec,
        against=str(against.path) if against else None,
        rollouts=len(run),
        planned=run.planned,
        complete=run.finished,
        rows=len(rows),
        traces=opened,
        seed=seed,
        items=tuple(items),
    )


health = blocking("health", health_async)


def _opened(run: Run | str | Path) -> Run:
    return run if isinstance(run, Run) else Run(run)


def quick_health(run: Run) -> list[HealthItem]:
    """The checks that need only rows, without the failures, which every summary shows anyway."""
    return _of_rows(run, rows_of(run))


def _of_rows(run: Run, rows: Sequence[TraceRow]) -> list[HealthItem]:
    limits_of = run.manifest.limits_of
    return [
        crashes(rows),
        latency(rows, limits_of),
        timeouts(rows, limits_of),
        survivors(rows),
        resolution(rows, scripted=run.manifest.config.model.spec.startswith("scripted:")),
    ]


def rows_of(run: Run, seed: int = 0) -> list[TraceRow]:
    """All rows in order, or a seeded sample of a very large run."""
    count = len(run)
    if count <= _MOST_ROWS:
        return list(run.rows)
    chosen = sorted(_rng(seed, "rows").sample(range(count), _MOST_ROWS))
    return list(decode_rows(run.reader.table().take(chosen)))


def _drift(run: Run, rows: Sequence[TraceRow], against: Run | None, traces: int, seed: int) -> tuple[int, HealthItem]:
    """The number of traces read, and the result."""
    sides = halves(rows) if against is None else sides_between(rows_of(against, seed), rows)
    first = _features(against or run, sides.first, traces // 2, seed)
    second = _features(run, sides.second, traces // 2, seed)
    return len(first) + len(second), drift(sides, first, second)


def _features(run: Run, rows: Sequence[TraceRow], most: int, seed: int) -> list[Features]:
    return [features_of(trace) for trace in _draw_traces(run, rows, most, seed)]


def _draw_traces(run: Run, rows: Sequence[TraceRow], most: int, seed: int, why: str = "traces") -> list[Trace]:
    """The traces of these rows, or of a seeded sample of them if they are more than `most`."""
    chosen = rows if len(rows) <= most else _rng(seed, why).sample(rows, most)
    return list(run.reader.traces_of((row.task, row.rollout) for row in chosen))


async def _sentinel(
    run: Run, rows: Sequence[TraceRow], regrades: int, replays: int, env: str | None, judge: str | None, seed: int
) -> list[HealthItem]:
    scored = [row for row in rows if row.score is not None]
    again = _draw_traces(run, scored, regrades, seed, "regrades")
    played = _draw_traces(run, [row for row in scored if row.end != "time_limit" and row.turns], replays, seed, "replays")
    asked = {"regrade": regrades > 0, "replay": replays > 0}
    if not any(asked.values()):
        return [_not_asked(name) for name in asked]
    items = await run_sentinel(run, again, played, env=env, judge=judge)
    return [item if asked[item.name] else _not_asked(item.name) for item in items]


def _not_asked(name: str) -> HealthItem:
    return HealthItem(name=name, mark=HealthMark.NOT_ASKED, said="not asked")


def _rng(seed: int, why: str) -> Random:
    return Random(derive_seed("health", seed, why))  # noqa: S311 - a repeatable sample, not a secret
