"""What a run will cost, estimated from a pilot: tokens, money, time and sandbox hours, each with a range.

A forecast is the pilot's average, scaled up. The range covers the uncertainty of a small pilot and the variation between
rollouts. What the pilot does not show is reported as unknown.
"""

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import msgspec

from sandlot.core.limits import Limits
from sandlot.core.stats.intervals import CONFIDENCE, Sums, spread_of, t_width
from sandlot.core.trace_row import TraceRow
from sandlot.env.environment import Environment
from sandlot.env.fingerprint import environment_fingerprint
from sandlot.env.load import load
from sandlot.run.config import RunConfig, RunPlan, plan_run
from sandlot.run.results import Run


class Range(msgspec.Struct, frozen=True, kw_only=True):
    """An estimate with its range. None is unknown."""

    likely: float | None = None
    low: float | None = None
    high: float | None = None

    def describe(self) -> str:
        """In words: the number and its range, or that it is unknown, with a bound if there is one."""
        likely = "unknown" if self.likely is None else _shown(self.likely)
        if self.low is not None and self.high is not None and self.low < self.high:
            return f"{likely}  ({_shown(self.low)} to {_shown(self.high)})"
        return f"{likely}  (at most {_shown(self.high)})" if self.low is None and self.high is not None else likely

    def times(self, factor: float) -> "Range":
        """The same in other units."""
        return Range(**{name: None if value is None else value * factor for name, value in msgspec.structs.asdict(self).items()})


class Forecast(msgspec.Struct, frozen=True, kw_only=True):
    """The expected cost of a run."""

    rollouts: int
    at_once: int
    pilot: int
    """Rollouts of the pilot."""
    turns: Range
    prompt_tokens: Range
    completion_tokens: Range
    usd: Range
    wall_s: Range
    """If the endpoint and the machine keep up with `at_once` as they did in the pilot."""
    sandbox_hours: Range
    notes: tuple[str, ...] = ()

    @property
    def ranges(self) -> dict[str, Range]:
        """Every number by name."""
        return {name: value for name, value in msgspec.structs.asdict(self).items() if isinstance(value, Range)}

    def describe(self) -> str:
        """The forecast as text, one number per line."""
        basis = f"from a pilot of {self.pilot}" if self.pilot else "without a pilot"
        lines = [f"{self.rollouts:,} rollouts, {self.at_once:,} at once, {basis}"]
        lines += [f"  {name.replace('_', ' '):<18} {number.describe()}" for name, number in self.ranges.items()]
        return "\n".join([*lines, *(f"  {note}" for note in self.notes)])


def forecast(
    rollouts: int, pilot: Iterable[TraceRow] = (), *, at_once: int, limits: Limits | None = None, sandboxed: bool = False
) -> Forecast:
    """What `rollouts` rollouts will take, from rows of a pilot of the same setting; without one, what the limits alone say."""
    if rollouts < 0 or at_once < 1:
        raise ValueError(f"rollouts={rollouts}, at_once={at_once}: give 0 or more, and 1 or more")
    rows = [row for row in pilot if row.outcome != "cancelled"]  # cut short by an operator: says nothing about other rollouts
    busy_s = _total(rows, lambda row: row.seconds, rollouts)
    return Forecast(
        rollouts=rollouts,
        at_once=at_once,
        pilot=len(rows),
        turns=_capped(_total(rows, lambda row: row.turns, rollouts), rollouts * limits.turns if limits else None),
        prompt_tokens=_total(rows, lambda row: row.prompt_tokens, rollouts),
        completion_tokens=_total(rows, lambda row: row.completion_tokens, rollouts),
        usd=_total(rows, lambda row: row.usd, rollouts),
        wall_s=_wall(busy_s, rows, min(at_once, rollouts) or 1),
        sandbox_hours=busy_s.times(1 / 3600) if sandboxed else Range(likely=0.0, low=0.0, high=0.0),
        notes=tuple(_notes(rows, rollouts)),
    )


def forecast_run(config: RunConfig, runs: Path, rollouts: int | None = None) -> tuple[RunPlan, Forecast]:
    """What a run would take, and what it would cost as far as earlier runs below `runs` tell; runs nothing.

    `rollouts` is their number where the plan does not decide it.
    """
    env = load(config.env).in_image(config.image)
    plan = plan_run(env, config)
    pilot = _find_pilot(env, config, runs)
    wanted = plan.num_rollouts if rollouts is None else rollouts
    rows = pilot.rows if pilot else ()
    return plan, forecast(wanted, rows, at_once=config.at_once, limits=env.limits, sandboxed=env.image is not None)


def _find_pilot(env: Environment, config: RunConfig, runs: Path) -> Run | None:
    """The newest run of this environment, unchanged, with this model."""
    fingerprint = environment_fingerprint(env, build=False)
    for path in sorted(runs.glob("*/manifest.json"), key=lambda each: each.stat().st_mtime, reverse=True):
        run = Run(path.parent)
        same = run.manifest.fingerprints.environment == fingerprint and run.manifest.config.model.spec == config.model.shown
        if same and len(run):
            return run
    return None


def _shown(number: float) -> str:
    return f"{number:,.0f}" if number >= 100 or number == round(number) else f"{number:.3g}"


def _total(rows: Sequence[TraceRow], value_of: Callable[[TraceRow], float], rollouts: int) -> Range:
    """The sum over `rollouts` new rollouts; the range has the error of the mean and the variation of those rollouts."""
    if not rows:
        return Range()
    by_task: defaultdict[str, list[float]] = defaultdict(list)
    for row in rows:
        by_task[row.task].append(value_of(row))
    values = [value for task in by_task.values() for value in task]
    spread = spread_of([Sums(len(task), math.fsum(task)) for task in by_task.values()])
    assert spread is not None, "there are rows"
    likely = rollouts * spread.mean
    if spread.error is None or not rollouts:  # one task says nothing about the spread over others
        return Range(likely=likely) if rollouts else Range(likely=0.0, low=0.0, high=0.0)
    variance = math.fsum((value - spread.mean) ** 2 for value in values) / (len(values) - 1)
    half = rollouts * t_width(spread.clusters - 1, CONFIDENCE) * math.sqrt(spread.error**2 + variance / rollouts)
    return Range(likely=likely, low=max(0.0, likely - half), high=likely + half)


def _capped(turns: Range, most: int | None) -> Range:
    """Turns have a limit, pilot or not, where the limit is known."""
    if most is None:
        return turns
    return Range(likely=turns.likely, low=turns.low, high=most if turns.high is None else min(most, turns.high))


def _wall(busy_s: Range, rows: Sequence[TraceRow], at_once: int) -> Range:
    """The work divided evenly; in the worst case, plus the longest rollout, started last."""
    even = busy_s.times(1 / at_once)
    if even.low is None or even.high is None:
        return even
    return Range(likely=even.likely, low=even.low, high=even.high + max(row.seconds for row in rows))


def _notes(rows: Sequence[TraceRow], rollouts: int) -> Iterable[str]:
    if not rows:
        yield "no pilot: run a few rollouts of each of several tasks first, and forecast from them"
        return
    tasks = len({row.task for row in rows})
    if tasks == 1:
        yield "the pilot has one task: how others differ is not known"
    elif tasks < 5:
        yield f"the pilot has {tasks} tasks: the ranges are wide"
    if rollouts and not any(row.usd for row in rows):
        yield "the pilot was counted as free: no price is known for this model, or it has none"
    failed = sum(row.outcome == "failed" for row in rows)
    if failed:
        yield f"{failed} of the pilot's {len(rows)} rollouts failed; they are counted with what they used"
