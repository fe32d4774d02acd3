"""Rewards that rise while the outcome stays where it was: the alarm of training, over any run.

A training run wrote down its own steps, with the outcome its recipe names; they are read as they are. Of any other run the steps
are stretches of its rollouts in the order they were kept, the outcome is full marks, and each task's own mean is taken out first:
easy tasks that happen to come last are no rise.
"""

from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from sandlot.analysis.alarm import FEWEST, Figures, alarm, rise
from sandlot.analysis.health.item import HealthItem, HealthMark
from sandlot.core.stats.intervals import Sums, spread_of
from sandlot.core.trace import TraceRow

PROGRESS = "progress.jsonl"
"""Where training writes its steps."""
_STRETCHES = 24
_FEWEST_ROWS = 8
"""Scored rollouts in a stretch."""
_RECURS = 0.25
"""The share of a run over which a task must recur."""


class SurgeStep(msgspec.Struct, frozen=True, kw_only=True):
    """`watch.Figures` of one stretch."""

    version: int
    reward: float
    outcome: float
    reward_error: float = 0.0
    gap_error: float = 0.0


class _Learned(SurgeStep, frozen=True, kw_only=True, tag="step", tag_field="is"):
    """A step as training writes it, less what is not needed here."""


def surge(rows: Sequence[TraceRow], path: Path | None = None) -> HealthItem:
    """Look at the steps of a training run in `path`, or at stretches of the rows."""
    learned = _steps_learned(path / PROGRESS) if path else []
    steps: Sequence[Figures] = learned or stretches(rows)
    if not steps and not _recurring(rows):
        said = "not asked: no task comes again later in the run, as in training, so nothing could be seen to rise"
        return HealthItem(name="surge", mark=HealthMark.NOT_ASKED, said=said)
    if len(steps) < FEWEST:
        needed = f"{FEWEST} steps of training, or {FEWEST * _FEWEST_ROWS} scored rollouts of tasks that recur"
        return HealthItem(name="surge", mark=HealthMark.UNKNOWN, said="too short to see a reward rise", needed=needed)
    found = alarm(steps)
    reward_rise, outcome_rise = rise([step.reward for step in steps]), rise([step.outcome for step in steps])
    figures = {
        "steps": len(steps),
        "of": "training" if learned else "rollouts",
        "reward_rise": reward_rise,
        "outcome_rise": outcome_rise,
    }
    if found is None:
        said = f"from the first third to the last, the reward moved by {reward_rise:+.3f} and the outcome by {outcome_rise:+.3f}"
        return HealthItem(name="surge", mark=HealthMark.OK, said=said, figures=figures)
    return HealthItem(name="surge", mark=HealthMark.FAIL, said=found.sentence, figures={**figures, **msgspec.to_builtins(found)})


def _steps_learned(file: Path) -> list[_Learned]:
    """The steps of a training run; none if it is none. A line a crash cut off never was."""
    steps: list[_Learned] = []
    for line in file.read_bytes().splitlines() if file.is_file() else ():
        try:
            steps.append(msgspec.json.decode(line, type=_Learned))
        except (msgspec.MsgspecError, UnicodeDecodeError):
            continue
    return steps


def stretches(rows: Sequence[TraceRow]) -> list[SurgeStep]:
    """Scored rollouts as they began, each less its task's mean; none if tasks were not taken at different times."""
    scored = _recurring(rows)
    if len(scored) < FEWEST * _FEWEST_ROWS:
        return []
    paid, real = _centred(scored, lambda row: row.score or 0.0), _centred(scored, lambda row: float(row.passed is True))
    gaps = [(task, value - real[place][1]) for place, (task, value) in enumerate(paid)]
    count = min(_STRETCHES, len(scored) // _FEWEST_ROWS)
    parts = [slice(number * len(scored) // count, (number + 1) * len(scored) // count) for number in range(count)]
    return [
        SurgeStep(
            version=number,
            reward=_mean(paid[part])[0],
            outcome=_mean(real[part])[0],
            reward_error=_mean(paid[part])[1],
            gap_error=_mean(gaps[part])[1],
        )
        for number, part in enumerate(parts, start=1)
    ]


def _recurring(rows: Sequence[TraceRow]) -> list[TraceRow]:
    """Scored rollouts, as they began, of tasks that recur over a good part of the run: only those can show a change meanwhile."""
    scored = sorted((row for row in rows if row.score is not None), key=lambda row: row.started)
    first: dict[str, int] = {}
    last: dict[str, int] = {}
    for place, row in enumerate(scored):
        first.setdefault(row.task, place)
        last[row.task] = place
    return [row for row in scored if last[row.task] - first[row.task] >= _RECURS * len(scored)]


def _centred(rows: Sequence[TraceRow], of: Callable[[TraceRow], float]) -> list[tuple[str, float]]:
    """Each value with its task's mean replaced by the mean of all."""
    totals: defaultdict[str, list[float]] = defaultdict(list)
    for row in rows:
        totals[row.task].append(of(row))
    means = {task: sum(values) / len(values) for task, values in totals.items()}
    whole = sum(means[row.task] for row in rows) / len(rows)
    return [(row.task, of(row) - means[row.task] + whole) for row in rows]


def _mean(values: Sequence[tuple[str, float]]) -> tuple[float, float]:
    """A mean and its standard error; the tasks' own means are out of it, so the rollouts are what varies."""
    spread = spread_of([Sums(1, value) for _, value in values])
    return (spread.mean, spread.error or 0.0) if spread else (0.0, 0.0)
