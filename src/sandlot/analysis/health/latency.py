"""How long grading takes, and how close it comes to its deadline: slow grading times out under load."""

from collections.abc import Callable, Sequence

from sandlot.analysis.health.item import HealthItem, HealthMark, too_little
from sandlot.core.limits import Limits
from sandlot.core.stats.intervals import quantile
from sandlot.core.trace_row import TraceRow

LimitsOf = Callable[[str], Limits | None]
"""The limits of a task; None if the run does not record them."""

_NEAR = 0.8
"""Grading that takes this share of its deadline is near it."""
_MOST_NEAR = 0.01
_FEWEST = 20
_SHOWN = 3


def latency(rows: Sequence[TraceRow], limits_of: LimitsOf) -> HealthItem:
    """Grading time of all rollouts whose grading began."""
    graded = [(row.phases["grade"], row) for row in rows if "grade" in row.phases]
    if len(graded) < _FEWEST:
        return too_little("latency", f"{len(graded)} rollouts were graded", f"{_FEWEST} graded rollouts")
    seconds = sorted(taken for taken, _ in graded)
    shares = [(taken / limits.grade_s, row) for taken, row in graded if (limits := limits_of(row.task)) is not None]
    near = sorted(((share, row) for share, row in shares if share >= _NEAR), key=lambda pair: -pair[0])
    overrun = sum(row.side == "grader" and row.kind == "timeout" for _, row in graded)
    share = len(near) / len(shares) if shares else 0.0
    p50, p95, longest = quantile(seconds, 0.5), quantile(seconds, 0.95), seconds[-1]
    said = (
        f"grading takes {duration_text(p50)} (median), {duration_text(p95)} (95th percentile), {duration_text(longest)} (maximum)"
    )
    if not shares:
        said += "; the run does not record its deadline"
    elif near:
        said += f"; {len(near)} of {len(shares):,} came near the deadline or exceeded it ({overrun} exceeded)"
    return HealthItem(
        name="latency",
        mark=HealthMark.WARN if share > _MOST_NEAR or overrun else HealthMark.OK,
        said=said,
        figures={
            "graded": len(graded),
            "p50_s": p50,
            "p95_s": p95,
            "max_s": longest,
            "near_deadline": len(near),
            "with_deadline": len(shares),
            "overrun": overrun,
        },
        look=tuple(f"{row.task}/{row.rollout}" for _, row in near[:_SHOWN]),
    )


def duration_text(seconds: float) -> str:
    """A duration with a suitable unit."""
    if seconds < 0.001:
        return f"{seconds * 1e6:.0f} us"
    return f"{seconds * 1000:.0f} ms" if seconds < 1 else f"{seconds:.1f} s"
