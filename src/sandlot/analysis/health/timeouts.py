"""Time-outs that became a reward of 0 without being recorded as a failure.

Reaching the agent's own time limit is an ordinary end and is recorded. This check looks for others: rollouts that took as long
as a deadline allows, ended normally, and score 0 more often than the rest (Fisher's exact test). The deadlines are the declared
ones, and undeclared *walls*: a longest time that many rollouts share to within two percent, as a `timeout=` inside a check or a
tool causes.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from sandlot.analysis.health.item import HealthItem, HealthMark, too_little
from sandlot.analysis.health.latency import LimitsOf, duration_text
from sandlot.core.stats.intervals import quantile
from sandlot.core.stats.tests import fisher, holm
from sandlot.core.trace_row import TraceRow
from sandlot.core.types import End

_NEAR = 0.98
"""Rollouts that took this share of a deadline ended at it."""
_ALPHA = 0.01
_FEWEST = 20
_FEWEST_NEAR = 5
_NOTICED_S = 1.0
"""Shorter times are no wall: rollouts that wait for one busy loop share them, and deadlines are longer."""
_STANDS_OUT = 3.0
"""A longest time must be this many times the median to be a wall."""
_SHOWN = 3


@dataclass(frozen=True, slots=True)
class _Wall:
    """The rollouts that ended at a deadline, and the others."""

    name: str
    seconds: float
    near: list[TraceRow]
    others: list[TraceRow]
    declared: bool

    @property
    def p_value(self) -> float:
        return fisher(_zeros(self.near), len(self.near), _zeros(self.others), len(self.others), greater=True).p


def timeouts(rows: Sequence[TraceRow], limits_of: LimitsOf) -> HealthItem:
    """Compare scored rollouts near a deadline with the others."""
    scored = [row for row in rows if row.score is not None]
    if len(scored) < _FEWEST:
        return too_little("timeouts", f"{len(scored)} rollouts were scored", f"{_FEWEST} scored rollouts")
    unlimited = [row for row in scored if row.end != End.TIME_LIMIT]
    walls = [wall for wall in (*_declared(unlimited, limits_of), *_undeclared(unlimited)) if len(wall.near) >= _FEWEST_NEAR]
    p_values = holm([wall.p_value for wall in walls])
    found = [(wall, p) for wall, p in zip(walls, p_values, strict=True) if p < _ALPHA]
    figures = {
        "scored": len(scored),
        "time_limit": len(scored) - len(unlimited),
        "walls": [
            {
                "deadline": wall.name,
                "seconds": wall.seconds,
                "near": len(wall.near),
                "near_zero": _zeros(wall.near),
                "others": len(wall.others),
                "others_zero": _zeros(wall.others),
                "p_value": p,
            }
            for wall, p in zip(walls, p_values, strict=True)
        ],
    }
    if not found:
        close = "rollouts near a deadline do not score lower" if walls else "no deadline was reached by several rollouts"
        return HealthItem(name="timeouts", mark=HealthMark.OK, said=close, figures=figures)
    wall, p = min(found, key=lambda pair: (not pair[0].declared, pair[1]))
    said = (
        f"{_zeros(wall.near)} of {len(wall.near)} rollouts that ended at {wall.name} ({duration_text(wall.seconds)}) "
        "have reward 0, "
        f"against {_zeros(wall.others)} of {len(wall.others):,} others (p = {p:.1g}): a time-out may have become a reward"
    )
    look = tuple(f"{row.task}/{row.rollout}" for row in wall.near[:_SHOWN])
    return HealthItem(
        name="timeouts", mark=HealthMark.FAIL if wall.declared else HealthMark.WARN, said=said, figures=figures, look=look
    )


def _declared(rows: list[TraceRow], limits_of: LimitsOf) -> list[_Wall]:
    """Walls at the declared deadlines; a task may have its own."""
    known = [(row, limits) for row in rows if (limits := limits_of(row.task)) is not None]
    return [
        _split("the agent's time limit", [(row, _agent_s(row), limits.time_s) for row, limits in known]),
        _split("the deadline of grading", [(row, _grading_s(row), limits.grade_s) for row, limits in known]),
    ]


def _undeclared(rows: list[TraceRow]) -> list[_Wall]:
    """Walls at the longest times, if they stand out."""
    walls: list[_Wall] = []
    spent: dict[str, Callable[[TraceRow], float]] = {"longest agent's time": _agent_s, "longest grading": _grading_s}
    for name, seconds in spent.items():
        spread = sorted(map(seconds, rows))
        longest = spread[-1] if spread else 0.0
        if longest >= max(_NOTICED_S, _STANDS_OUT * quantile(spread or [0.0], 0.5)):
            walls.append(_split(f"the {name}", [(row, seconds(row), longest) for row in rows], declared=False))
    return walls


def _split(name: str, timed: list[tuple[TraceRow, float, float]], *, declared: bool = True) -> _Wall:
    near = [row for row, seconds, limit in timed if seconds >= _NEAR * limit]
    others = [row for row, seconds, limit in timed if seconds < _NEAR * limit]
    return _Wall(name, max((limit for _, _, limit in timed), default=0.0), near, others, declared)


def _agent_s(row: TraceRow) -> float:
    """Time of model and tools."""
    return row.phases.get("model", 0.0) + row.phases.get("tools", 0.0)


def _grading_s(row: TraceRow) -> float:
    """Time of all checks."""
    return row.phases.get("grade", 0.0)


def _zeros(rows: Sequence[TraceRow]) -> int:
    return sum(row.score is not None and row.score <= 0 for row in rows)
