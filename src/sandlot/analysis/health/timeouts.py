"""Time-outs that became a reward: rollouts that end at a wall of time and are worth nothing, though nobody called it a failure.

Reaching the agent's own time limit is an ordinary end and says so. What is looked for here are the others: rollouts that took as
long as some deadline allows, ended as if all were well, and score 0 more often than the rest (Fisher's exact test). The deadlines
are the declared ones, and the *walls* nobody declared: a longest time that many rollouts share to within two percent, as a
`timeout=` inside a check or a tool leaves it.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from sandlot.analysis.health.item import HealthItem, HealthMark
from sandlot.analysis.health.latency import LimitsOf, duration_text
from sandlot.core.stats.differences import fisher
from sandlot.core.stats.intervals import quantile
from sandlot.core.stats.tests import holm
from sandlot.core.trace import TraceRow
from sandlot.core.types import End

_NEAR = 0.98
"""Of a deadline: what takes this share of it or more ended there."""
_ALPHA = 0.01
_FEWEST = 20
_FEWEST_NEAR = 5
_NOTICED_S = 1.0
"""Shorter times pile up by themselves, for rollouts that wait for one busy loop together; hardly a deadline is that short."""
_STANDS_OUT = 3.0
"""How many times the median a longest time must be to be a wall that some ran into, and not what everybody takes."""
_SHOWN = 3


@dataclass(frozen=True, slots=True)
class _Wall:
    """Rollouts that ended at a deadline, and all the others."""

    name: str
    seconds: float
    near: list[TraceRow]
    others: list[TraceRow]
    declared: bool

    @property
    def p_value(self) -> float:
        return fisher(_zeros(self.near), len(self.near), _zeros(self.others), len(self.others))


def timeouts(rows: Sequence[TraceRow], limits_of: LimitsOf) -> HealthItem:
    """Scored rollouts near a deadline against the others."""
    scored = [row for row in rows if row.score is not None]
    if len(scored) < _FEWEST:
        return HealthItem(
            name="timeouts",
            mark=HealthMark.UNKNOWN,
            said=f"{len(scored)} rollouts were scored",
            needed=f"{_FEWEST} scored rollouts",
        )
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
        close = "rollouts that ended near a deadline are worth no less" if walls else "no rollouts pile up at a deadline"
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
    """At the deadlines the environment names; a task may have its own."""
    known = [(row, limits) for row in rows if (limits := limits_of(row.task)) is not None]
    return [
        _split("the agent's time limit", [(row, _agent_s(row), limits.time_s) for row, limits in known]),
        _split("the deadline of grading", [(row, _grading_s(row), limits.grade_s) for row, limits in known]),
    ]


def _undeclared(rows: list[TraceRow]) -> list[_Wall]:
    """At the longest time there was, if it is a wall: chance puts few others within two percent of it."""
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
    """Model and tools together."""
    return row.phases.get("model", 0.0) + row.phases.get("tools", 0.0)


def _grading_s(row: TraceRow) -> float:
    """All checks together."""
    return row.phases.get("grade", 0.0)


def _zeros(rows: Sequence[TraceRow]) -> int:
    return sum(row.score is not None and row.score <= 0 for row in rows)
