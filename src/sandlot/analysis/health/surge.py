"""Rewards that rise while the outcome does not: the alarm of training, for any run.

A training run records its steps, with the outcome that its recipe names. For any other run the steps are stretches of its
rollouts in order, and the outcome is full marks; each task's mean is subtracted first, so that easy tasks at the end are no
rise.

A run whose reward rises while the work per rollout (tokens, or calls where nobody counted tokens) falls to less than half is
reported too, as something to look at.
"""

import math
from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from sandlot.analysis.alarm import ALPHA, FEWEST, Figures, alarm, drift_evidence, rise
from sandlot.analysis.health.item import HealthItem, HealthMark, too_little
from sandlot.core.stats.intervals import Sums, spread_of
from sandlot.core.trace_row import TraceRow

PROGRESS = "progress.jsonl"
"""Where training writes its steps."""
_STRETCHES = 24
_FEWEST_ROWS = 8
"""Minimum scored rollouts per stretch."""
_RECURS = 0.25
"""A task recurs if its rollouts spread over this share of the run."""


class SurgeStep(msgspec.Struct, frozen=True, kw_only=True):
    """`alarm.Figures` of one stretch."""

    version: int
    reward: float
    outcome: float
    reward_error: float = 0.0
    gap_error: float = 0.0


class _Learned(SurgeStep, frozen=True, kw_only=True, tag="step", tag_field="is"):
    """The fields of a training step that are needed here."""


def surge(rows: Sequence[TraceRow], path: Path | None = None) -> HealthItem:
    """Check the steps of a training run in `path`, or stretches of the rows."""
    learned = _steps_learned(path / PROGRESS) if path else []
    steps: Sequence[Figures] = learned or stretches(rows)
    if not steps and not _recurring(rows):
        said = "skipped: no task is repeated later in the run, so a rise cannot be measured"
        return HealthItem(name="surge", mark=HealthMark.NOT_ASKED, said=said)
    if len(steps) < FEWEST:
        needed = f"{FEWEST} steps of training, or {FEWEST * _FEWEST_ROWS} scored rollouts of tasks that recur"
        return too_little("surge", "too short to measure a rise", needed)
    found, shrunk = alarm(steps), _shrunk(rows)
    reward_rise, outcome_rise = rise([step.reward for step in steps]), rise([step.outcome for step in steps])
    figures = {
        "steps": len(steps),
        "of": "training" if learned else "rollouts",
        "reward_rise": reward_rise,
        "outcome_rise": outcome_rise,
    }
    if found is None and shrunk:
        return HealthItem(name="surge", mark=HealthMark.WARN, said=shrunk, figures=figures)
    if found is None:
        said = (
            f"from the first to the last third, the reward changed by {reward_rise:+.3f} and the outcome by {outcome_rise:+.3f}"
        )
        return HealthItem(name="surge", mark=HealthMark.OK, said=said, figures=figures)
    return HealthItem(name="surge", mark=HealthMark.FAIL, said=found.sentence, figures={**figures, **msgspec.to_builtins(found)})


def _shrunk(rows: Sequence[TraceRow]) -> str:
    """A sentence if the reward rises while the work falls to less than half: shortcuts look so, and so does practice."""
    scored = _recurring(rows)
    if len(scored) < FEWEST * _FEWEST_ROWS:
        return ""
    written = any(row.completion_tokens for row in scored)
    unit = "tokens" if written else "calls"
    work = _centred(scored, lambda row: math.log1p(row.completion_tokens if written else row.calls))
    paid = _centred(scored, lambda row: row.score or 0.0)
    count = min(_STRETCHES, len(scored) // _FEWEST_ROWS)
    parts = [slice(number * len(scored) // count, (number + 1) * len(scored) // count) for number in range(count)]
    rising = drift_evidence(*zip(*(_mean(paid[part]) for part in parts), strict=True))
    less = [_mean(work[part]) for part in parts]
    falling = drift_evidence([-mean for mean, _ in less], [error for _, error in less])
    change = rise([mean for mean, _ in less])
    if min(rising, falling) < 1 / ALPHA or change > -math.log(2):
        return ""
    return f"the reward rose while rollouts took {math.exp(change):.0%} of the {unit} they took at first; read some successes"


def _steps_learned(file: Path) -> list[_Learned]:
    """The steps of a training run; empty for other runs. A line that a crash cut off is ignored."""
    steps: list[_Learned] = []
    for line in file.read_bytes().splitlines() if file.is_file() else ():
        try:
            steps.append(msgspec.json.decode(line, type=_Learned))
        except (msgspec.MsgspecError, UnicodeDecodeError):
            continue
    return steps


def stretches(rows: Sequence[TraceRow]) -> list[SurgeStep]:
    """Stretches of scored rollouts in order, each reward without its task's mean; empty if too few tasks recur."""
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
    """Scored rollouts in order, of tasks that recur over much of the run: only these can show a change."""
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
    """A mean and its standard error; the means of tasks are subtracted already."""
    spread = spread_of([Sums(1, value) for _, value in values])
    return (spread.mean, spread.error or 0.0) if spread else (0.0, 0.0)
